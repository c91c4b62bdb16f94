"""Small training programs that hang on purpose, each with its truth in `catalogue`: demo, tests and bench use them.

They play the user's script: none of them knows ddetect.
"""

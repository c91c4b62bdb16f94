"""What a user has to put in front of the training program for a tool to work: `torchrun ... WRAPPER.py PROGRAM ARGS`.

Each runs inside every rank. Never here: the bench itself.
"""

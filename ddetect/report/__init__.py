"""Verdicts as text and JSON, and the job's state as a line or a table.

Enters: values of ddetect.model. Leaves: strings. Never here: I/O, judging.
"""

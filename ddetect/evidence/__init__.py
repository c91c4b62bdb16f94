"""Pure parsers of evidence that others made."""

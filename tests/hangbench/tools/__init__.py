"""The tools that are compared, each with its version and its settings."""

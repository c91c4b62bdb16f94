"""One machine: what its kernel and its devices say."""

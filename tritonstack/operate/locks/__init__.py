"""Check locks, read their history, and retain the artifacts they name."""

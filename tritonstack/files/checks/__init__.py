"""Rules that need more than one file."""

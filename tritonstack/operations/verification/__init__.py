"""Verify that endpoints run what was requested."""

"""Decide which requests are answered, and for which account."""

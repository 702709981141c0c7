"""Verify Signature Version 4 and its variants."""

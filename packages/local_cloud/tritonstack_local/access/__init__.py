"""Decides which requests the embedded cloud answers, and on behalf of which account."""

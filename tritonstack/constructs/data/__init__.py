"""Buckets, keys, and shared values."""

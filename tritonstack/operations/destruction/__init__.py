"""Destroy environments: protection, deletion, and retained resources."""

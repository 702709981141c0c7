"""Environments taken down: what protects them, what is deleted and what is kept."""

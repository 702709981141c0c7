"""Endpoints of an environment file, and their rules."""

"""Roles and pipelines that deliver changes."""

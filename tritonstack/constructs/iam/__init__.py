"""Roles, policies, and statements."""

"""Shared by the services implemented here: request parsing, answers, and errors."""

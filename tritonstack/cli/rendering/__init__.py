"""Render the results of commands for terminals and pull requests."""

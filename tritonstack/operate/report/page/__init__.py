"""Render the report as HTML."""

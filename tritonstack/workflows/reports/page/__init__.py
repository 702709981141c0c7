"""Render the report as HTML. Pure functions; every text is escaped."""

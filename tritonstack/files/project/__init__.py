"""A project's environments with their models, locks, and plans."""

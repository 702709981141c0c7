"""Verify that what runs is what the commit asks for."""

"""Checks across files: locks, regions, releases, precision, compatibility."""

"""Publish artifacts and images, and copy them between environments."""

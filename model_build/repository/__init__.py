"""Triton repositories: configurations, the folders they lie in, and what both hosting modes ask of them."""

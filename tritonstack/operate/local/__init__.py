"""Local clouds, and a model served while its files change."""

"""Pictures in docs/images, made from real runs."""

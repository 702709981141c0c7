"""Pack, store, reuse, and publish artifacts."""

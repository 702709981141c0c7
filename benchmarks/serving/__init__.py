"""Compare served sentence embeddings with FastAPI."""

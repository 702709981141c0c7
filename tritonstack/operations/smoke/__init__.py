"""Send stored examples to endpoints."""

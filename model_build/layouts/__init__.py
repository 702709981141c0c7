"""Repository layouts: the Triton models around the graph of a transformers model."""

"""Compare a model with its framework, before and after it is served."""

"""Search settings of served models: spaces, objectives, a surrogate, and the next run to measure."""

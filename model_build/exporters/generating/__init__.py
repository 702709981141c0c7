"""Models that write texts: the completions to compare with, and the graphs that compute them."""

"""Locks over time: checked against all that they speak of, gone back to, kept, and told of."""

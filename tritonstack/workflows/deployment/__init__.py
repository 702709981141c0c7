"""Synthesize, compare, deploy, verify, and roll back the stacks of an environment."""

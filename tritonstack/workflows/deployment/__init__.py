"""Prepare and deploy the stacks of an environment."""

"""Find all resources of an environment by name and tag, and compare them with its stacks."""

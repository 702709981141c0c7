"""Plan, run, and roll back deployments of stacks."""

"""Plan, run, and record deployments."""

"""Show what a deployment would change, and why."""

"""Run endpoints: instances, updates, and rollouts."""

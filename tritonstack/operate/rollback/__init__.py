"""Return to artifacts of an earlier lock."""

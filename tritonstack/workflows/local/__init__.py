"""Start and stop local clouds."""

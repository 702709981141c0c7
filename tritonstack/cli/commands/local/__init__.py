"""Commands that start and stop local clouds."""

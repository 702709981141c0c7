"""Ways out of the sandboxes of models and builds."""

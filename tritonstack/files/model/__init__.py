"""model.yaml: its records and rules."""

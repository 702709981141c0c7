"""`models/<name>/model.yaml` and its rules."""

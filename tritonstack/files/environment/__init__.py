"""Environments, templates, and delivery.yaml: records and rules."""

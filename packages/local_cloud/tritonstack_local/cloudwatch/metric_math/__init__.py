"""Metric math: parse and evaluate expressions."""

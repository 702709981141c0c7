"""Measure endpoints under load."""

"""Promote artifacts between environments: plans, gates, and copies."""

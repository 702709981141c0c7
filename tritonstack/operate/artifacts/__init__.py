"""Artifacts: publish, copy between environments, import, check."""

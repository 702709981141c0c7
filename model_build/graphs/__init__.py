"""Exported graphs on their way to what Triton runs: cleaned, compared, made smaller or faster."""

"""Load a project, cross-check its files, and plan builds."""

"""Shared building blocks: YAML documents, errors, resource names, paths, and files. No AWS access."""

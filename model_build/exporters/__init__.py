"""Frameworks' models to files that Triton serves. Only the modules in here import the frameworks."""

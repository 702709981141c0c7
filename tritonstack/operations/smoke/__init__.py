"""Endpoints asked with the examples that lie beside their artifacts."""

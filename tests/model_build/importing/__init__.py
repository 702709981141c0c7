"""Tests of imported models."""

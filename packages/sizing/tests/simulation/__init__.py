"""Tests of the scaling simulation."""

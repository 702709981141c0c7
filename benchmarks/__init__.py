"""Benchmarks, each with a baseline from the same run; not part of the tests."""

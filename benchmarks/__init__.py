"""Measurements, each compared with a peer in the same run; never part of the tests."""

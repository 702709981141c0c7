"""Simulate how an endpoint scales and answers under a load."""

"""Promote artifacts from one environment to the next, if every gate is open."""

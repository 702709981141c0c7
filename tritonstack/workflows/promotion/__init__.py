"""Promote artifacts and images from one environment to the next."""

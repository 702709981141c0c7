"""Build models and images with jobs in an environment's account."""

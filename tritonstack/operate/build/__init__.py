"""Build models and images, here or in AWS, and write the lock."""

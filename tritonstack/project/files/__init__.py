"""Files of a model in the repository: found, checked, hashed."""

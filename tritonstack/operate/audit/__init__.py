"""Search for resources of an environment, also of one that is gone."""

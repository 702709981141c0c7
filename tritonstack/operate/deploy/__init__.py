"""Deploy an environment: what would change, what stands in the way, and the deployment."""

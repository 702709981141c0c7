"""What people write: models, endpoints, environments, delivery, and their rules."""

"""How commands grow with the number of models and endpoints."""

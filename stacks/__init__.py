"""Stack classes, one per concern. They only compose constructs of `tritonstack.constructs`."""

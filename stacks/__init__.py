"""Stack classes, one per concern. They only compose constructs from `tritonstack.constructs`."""

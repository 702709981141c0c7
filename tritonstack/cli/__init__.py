"""The `tritonstack` command line: thin commands over the workflows."""

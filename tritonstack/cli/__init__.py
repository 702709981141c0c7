"""The `tritonstack` command line: thin commands over the other rooms."""

"""Where builds run: in processes or in containers."""

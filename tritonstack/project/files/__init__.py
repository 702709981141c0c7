"""Find, check, and hash the files of a model."""

"""Files of a model: which belong to it, their hashes, and what is in them."""

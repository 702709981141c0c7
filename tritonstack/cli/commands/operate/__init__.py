"""Commands that observe and clean up deployed environments."""

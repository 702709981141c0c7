"""Commands that change or compare deployed environments."""

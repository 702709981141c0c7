"""Check, restore, retain, and list the history of locks."""

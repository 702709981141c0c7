"""The Resource Groups Tagging API: everything that has tags, whichever service made it."""

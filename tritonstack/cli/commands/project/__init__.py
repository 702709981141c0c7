"""Commands that work on the files and tools of a project."""

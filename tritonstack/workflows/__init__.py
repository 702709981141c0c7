"""Build, deploy, verify, and the other commands as Python functions. No typer, no rich."""

"""Build, deploy, verify, promote, roll back, destroy, and audit as Python functions. No typer, no rich."""

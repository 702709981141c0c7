"""What the commands do, one folder per verb: observe AWS and git, decide, act. No typer, no rich."""

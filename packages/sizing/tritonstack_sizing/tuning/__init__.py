"""Search the settings of a served model."""

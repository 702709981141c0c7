"""The shapes of what `tritonstack --json COMMAND` prints, from which its JSON Schemas are generated."""

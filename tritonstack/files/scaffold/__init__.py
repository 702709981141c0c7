"""New projects and models, and edits of YAML files that keep comments."""

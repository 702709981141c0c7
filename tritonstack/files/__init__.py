"""The files of a project: per kind its record, its rules, its loader."""

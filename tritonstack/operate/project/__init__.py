"""The files of a project: create, validate, inspect, and set up."""

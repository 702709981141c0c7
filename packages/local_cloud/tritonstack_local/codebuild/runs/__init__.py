"""Run one build: phases, variables, sources, artifacts, and its log."""

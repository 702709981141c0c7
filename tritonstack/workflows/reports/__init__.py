"""Report on a project: collect what its files and environments tell, and render it as one HTML page."""

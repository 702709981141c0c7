"""Find deployed environments, with or without their files."""

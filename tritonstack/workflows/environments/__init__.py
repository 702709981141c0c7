"""Find deployed environments, with or without their files; report on them, and delete them."""

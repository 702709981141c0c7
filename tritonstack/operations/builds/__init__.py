"""Models built by jobs in an environment's account, and the images that they are built in."""

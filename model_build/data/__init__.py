"""Plain data that the parts of a build exchange."""

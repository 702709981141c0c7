"""Commands that build artifacts."""

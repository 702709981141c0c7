"""What programs write: manifests, locks, events, examples."""

"""What the tool writes: locks, manifests, events, examples."""

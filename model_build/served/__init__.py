"""Files that go into artifacts as they are and run inside Triton's image, not here."""

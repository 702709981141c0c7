"""The commands `bench`, `tune`, and `simulate`."""

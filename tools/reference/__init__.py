"""Generate docs/reference/ from the types: `make reference`."""

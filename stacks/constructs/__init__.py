"""The parts that stacks are composed of, one construct a file."""

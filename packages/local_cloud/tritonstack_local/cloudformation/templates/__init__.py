"""Read and evaluate templates: parameters, intrinsic functions, and dependencies."""

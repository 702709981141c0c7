"""Compare `tritonstack tune` with an exhaustive grid."""

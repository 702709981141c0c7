"""Copy artifacts and images between environments and lock them."""

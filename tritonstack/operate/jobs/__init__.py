"""Jobs in AWS that build models and images: start, follow, and stop them."""

"""What is deployed: status, history, targets."""

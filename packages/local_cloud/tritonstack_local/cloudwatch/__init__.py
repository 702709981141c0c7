"""CloudWatch: metric values, metric math, and alarm evaluation."""

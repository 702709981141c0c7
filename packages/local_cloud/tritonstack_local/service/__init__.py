"""What this cloud's own services share: requests read by botocore's models, answers, errors."""

"""Create a user's repository: `tritonstack init`."""

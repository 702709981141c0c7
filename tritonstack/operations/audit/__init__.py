"""What is left or stands of an environment: by name and by tag, service by service, held against stacks."""

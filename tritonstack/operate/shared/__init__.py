"""What several verbs need: the session, AWS access, stacks, events, the checkout."""

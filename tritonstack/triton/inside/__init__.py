"""What runs in the namespaces of a server or a build, as scripts."""

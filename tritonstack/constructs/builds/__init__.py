"""CodeBuild projects, roles, and images that build models."""

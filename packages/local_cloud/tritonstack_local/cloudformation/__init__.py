"""CloudFormation: templates, deployments, and one provider per resource type."""

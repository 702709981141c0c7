"""CloudFormation of the embedded cloud: small pure parts, an engine, and one provider per resource type."""

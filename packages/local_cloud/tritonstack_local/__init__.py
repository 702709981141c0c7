"""A local AWS on one machine: CloudFormation, SageMaker hosting, and the services around them."""

"""The embedded AWS: CloudFormation, SageMaker hosting and the services around them, on one machine."""

"""Day two: what a person does to a running environment, through boto3 and the CDK command line."""

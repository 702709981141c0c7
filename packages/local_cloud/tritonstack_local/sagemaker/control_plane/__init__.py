"""SageMaker's API: models, endpoint configurations, and endpoints."""

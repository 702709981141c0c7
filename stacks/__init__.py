"""From the catalog to CloudFormation: one stack per concern, composed of the constructs below.

Stacks take validated records of the catalog. They find each other through names that follow from the
environment's file (catalog.naming), never through CloudFormation exports.
"""

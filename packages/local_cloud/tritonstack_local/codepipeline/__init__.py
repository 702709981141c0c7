"""CodePipeline: run stages with this cloud's S3, CodeBuild, and CloudFormation.

records.py is what is remembered; pipelines.py and executions.py are the API's actions; line.py and
execution_run.py take executions through their stages; actions/ does what each kind of action does; and
refusals.py says what is not built.
"""

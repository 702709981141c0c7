"""CodePipeline: run stages with this cloud's S3, CodeBuild, and CloudFormation.

records.py has the stored records; pipelines.py and executions.py are the API's actions; execution_queue.py
and execution_run.py run executions; actions/ has one module per kind of action; unsupported.py lists what is
rejected.
"""

"""The role of builds that run as SageMaker Processing jobs, on GPUs that CodeBuild has not.

There is no project to make: who starts such a job says what it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from constructs import Construct

from catalog import naming
from stacks.constructs.grants import Grant, Home, write_log
from stacks.constructs.service_role import ServiceRole


class ProcessingBuilds(Construct):
    """What a job may do; SageMaker writes its log into the group of all Processing jobs."""

    def __init__(self, scope: Construct, construct_id: str, *, base: str, grants: Sequence[Grant]) -> None:
        super().__init__(scope, construct_id)
        home = Home.of(self)
        jobs = home.arn("sagemaker", f"processing-job/{base}-build-*")
        role = ServiceRole(
            self,
            "Role",
            service="sagemaker.amazonaws.com",
            description="SageMaker Processing builds models with it",
            policy_name="build-models",
            only_for={
                "StringEquals": {"aws:SourceAccount": home.account},
                "ArnLike": {"aws:SourceArn": jobs},
            },
        )
        role.allow([*grants, write_log(home, naming.PROCESSING_LOG_GROUP)])
        self.role_arn = role.arn

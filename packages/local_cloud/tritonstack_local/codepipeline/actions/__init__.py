"""Pipeline actions by provider name."""

from collections.abc import Callable, Mapping

from tritonstack_local.codepipeline.actions.approval import approve
from tritonstack_local.codepipeline.actions.source_and_build import build, fetch
from tritonstack_local.codepipeline.actions.stack import deploy
from tritonstack_local.codepipeline.actions.work import ActionOutcome, Work

ACTIONS: Mapping[str, Callable[[Work], ActionOutcome]] = {
    "S3": fetch,
    "CodeBuild": build,
    "CloudFormation": deploy,
    "Manual": approve,
}

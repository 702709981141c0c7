"""What each kind of action does, by the name of its provider."""

from collections.abc import Callable, Mapping

from local_cloud.codepipeline.actions.approval import approve
from local_cloud.codepipeline.actions.build import build
from local_cloud.codepipeline.actions.source import fetch
from local_cloud.codepipeline.actions.stack import deploy
from local_cloud.codepipeline.actions.work import Outcome, Work

ACTIONS: Mapping[str, Callable[[Work], Outcome]] = {
    "S3": fetch,
    "CodeBuild": build,
    "CloudFormation": deploy,
    "Manual": approve,
}

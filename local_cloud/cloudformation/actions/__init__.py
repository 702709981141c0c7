"""The actions of the CloudFormation API."""

from local_cloud.cloudformation.actions import change_sets, reading, stacks, templates
from local_cloud.cloudformation.actions.base import ACTIONS, Action, Context

__all__ = ["ACTIONS", "Action", "Context", "change_sets", "reading", "stacks", "templates"]

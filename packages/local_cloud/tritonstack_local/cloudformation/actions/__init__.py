"""The actions of the CloudFormation API."""

from tritonstack_local.cloudformation.actions import change_sets, reading, stacks, templates
from tritonstack_local.cloudformation.actions.base import ACTIONS, Action, Context

__all__ = ["ACTIONS", "Action", "Context", "change_sets", "reading", "stacks", "templates"]

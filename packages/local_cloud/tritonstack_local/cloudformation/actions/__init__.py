"""The actions of the CloudFormation API."""

from tritonstack_local.cloudformation.actions import change_sets, reading, stacks, templates
from tritonstack_local.cloudformation.actions.base import ACTIONS, Action, ActionContext

__all__ = ["ACTIONS", "Action", "ActionContext", "change_sets", "reading", "stacks", "templates"]

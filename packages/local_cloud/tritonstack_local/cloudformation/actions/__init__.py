"""The actions of the CloudFormation API."""

from tritonstack_local.cloudformation.actions import change_sets, queries, stacks
from tritonstack_local.cloudformation.actions.base import ACTIONS, Action, ActionContext

__all__ = ["ACTIONS", "Action", "ActionContext", "change_sets", "queries", "stacks"]

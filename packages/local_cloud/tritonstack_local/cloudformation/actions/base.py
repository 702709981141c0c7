"""Declare API actions: the parameters they use, and those accepted without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.deployments.engine import Engine
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.scope import Scope

Params = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class ActionContext:
    """The context of an action."""

    engine: Engine
    scope: Scope

    @property
    def store(self) -> StackStore:
        """All stacks."""
        return self.engine.store


@dataclass(frozen=True)
class Action:
    """One action. Parameters in neither set are rejected instead of being ignored."""

    run: Callable[[ActionContext, Params], Answer]
    takes: frozenset[str]
    accepts: frozenset[str]


ACTIONS: dict[str, Action] = {}
ONLY_DEFAULT: Params = {
    "DeploymentConfig": {"Mode": "STANDARD"},
    "DisableRollback": False,
    "NotificationARNs": [],
    "OnFailure": "ROLLBACK",
    "OnStackFailure": "ROLLBACK",
    "RetainResources": [],
}
"""Parameters that are not implemented, with the value that changes nothing."""

Function = Callable[[ActionContext, Params], Answer]


def action(name: str, *, takes: str = "", accepts: str = "") -> Callable[[Function], Function]:
    """Register a function as an action; the parameters are separated by blanks."""

    def declare(function: Function) -> Function:
        ACTIONS[name] = Action(function, frozenset(takes.split()), frozenset(accepts.split()))
        return function

    return declare

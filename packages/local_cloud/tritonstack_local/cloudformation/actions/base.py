"""Declare API actions: the parameters they use, and those accepted without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tritonstack_local.cloudformation.deployments.changes import Providers
from tritonstack_local.cloudformation.deployments.engine import Engine
from tritonstack_local.cloudformation.store import StackStore
from tritonstack_local.identity.scope import Scope

Params = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class ActionContext:
    """What an action works with."""

    store: StackStore
    engine: Engine
    providers: Providers
    scope: Scope


@dataclass(frozen=True)
class Action:
    """One action. A parameter in neither set is refused: it would be ignored in silence otherwise."""

    run: Callable[[ActionContext, Params], Answer]
    takes: frozenset[str]
    accepts: frozenset[str]


ACTIONS: dict[str, Action] = {}

Function = Callable[[ActionContext, Params], Answer]


def action(name: str, *, takes: str = "", accepts: str = "") -> Callable[[Function], Function]:
    """Declare a function as the action of that name; parameters are listed with blanks between them."""

    def declare(function: Function) -> Function:
        ACTIONS[name] = Action(function, frozenset(takes.split()), frozenset(accepts.split()))
        return function

    return declare

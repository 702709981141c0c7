"""What stands between an environment and its destruction.

Two things, which guard against two mistakes:

1. Protection. The environment's file says so, and CloudFormation itself refuses to delete its stacks. Lifting
   it takes `protected: false` in the file, committed and deployed: a change that others can see and refuse.
   This guards against whoever is in a hurry, and against every tool that can delete a stack.
2. Its name. An environment that keeps data, or was protected at any time, is destroyed only by somebody who
   writes its name. This guards against the right command in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from tritonstack.base.errors import UsageError, shown_path
from tritonstack.base.yaml_nodes import load_yaml
from tritonstack.operations.checkout import Checkout
from tritonstack.operations.stacks import StackState
from tritonstack.spec.environments.environment import EnvironmentSpec


class ProtectedError(UsageError):
    """An environment may not be destroyed as things stand."""


def require_unprotected(
    name: str, *, spec: EnvironmentSpec | None, file: Path, stacks: Iterable[StackState], checkout: Checkout
) -> None:
    """Refuse unless the protection was lifted in the file, in git and in what is deployed.

    `spec` is what the file says; None where there is no file any more, and what is deployed decides alone.
    """
    if spec is not None:
        refuse_protected(spec, file)
    if refusal := next(_refusals(name, spec, file, list(stacks), checkout), None):
        message, remedy = refusal
        raise ProtectedError(message, remedy=remedy)


def refuse_protected(spec: EnvironmentSpec, file: Path) -> None:
    """Refuse what its file protects."""
    if spec.is_protected:
        why = "" if spec.protected else ", as all are that keep their data"
        raise ProtectedError(
            f"environment {spec.name!r} is protected by {shown_path(file)}{why}",
            remedy="write `protected: false` there, have it merged, run "
            f"`tritonstack deploy {spec.name}`, then this",
        )


def _refusals(
    name: str, spec: EnvironmentSpec | None, file: Path, stacks: Sequence[StackState], checkout: Checkout
) -> Iterator[tuple[str, str]]:
    shown = shown_path(file)
    locked = [stack.name for stack in stacks if stack.protected]
    if locked:
        yield (
            f"environment {name!r} is protected as it is deployed: {', '.join(locked)}",
            f"{shown} no longer says so: run `tritonstack deploy {name}`, then this again"
            if spec
            else f"write {shown} again with `protected: false` and deploy that, then run this again",
        )
    if spec is not None and spec.protected is False and not _is_committed(checkout, file):
        yield (
            f"`protected: false` in {shown} is not committed",
            "commit it, so that others can see who lifted the protection and when",
        )


def needs_its_name(spec: EnvironmentSpec | None, *, file: Path, keeps_data: bool, checkout: Checkout) -> bool:
    """Whether an environment is destroyed only by somebody who writes its name.

    `keeps_data` is what its deployed stacks say.
    """
    if keeps_data or (spec is not None and (spec.removal == "retain" or spec.protected is not None)):
        return True
    return any(_protects(text) for text in _versions(checkout, file))


def _is_committed(checkout: Checkout, file: Path) -> bool:
    """Whether git has the file as it is; where there is no git, nobody could look it up anyway."""
    return not checkout.exists or checkout.file_at("HEAD", file) == file.read_text(encoding="utf-8")


def _versions(checkout: Checkout, file: Path) -> Iterator[str]:
    """Every text that git has of a file, the latest first."""
    for commit in checkout.changes_of(file):
        text = checkout.file_at(commit.id, file)
        if text is not None:
            yield text


def _protects(text: str) -> bool:
    """Whether an environment's file, of whatever version, protects it."""
    try:
        data = load_yaml(text)
    except yaml.YAMLError:
        return False  # nothing was ever deployed from that
    if not isinstance(data, dict):
        return False
    protected = data.get("protected")
    return bool(data.get("removal") != "destroy" if protected is None else protected)

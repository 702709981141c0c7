"""Protect environments from destruction.

Two safeguards against two mistakes:

1. Protection: the environment's file sets `protected`, and CloudFormation rejects deletion of its stacks.
   Lifting it requires `protected: false` in the file, committed and deployed, so others can review it.
2. Confirmation: an environment that retains data, or was ever protected, is destroyed only after the user
   types its name. This prevents running the right command in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from tritonstack.base.errors import UsageError, shown_path
from tritonstack.base.yaml import load_yaml
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.stacks import StackState


class ProtectedError(UsageError):
    """The environment or its data must not be deleted. Set `protected: false`, deploy that, then destroy;
    environments with data also ask for their name.
    """

    code = "TS509"
    title = "Environment is protected"


def require_unprotected(
    name: str, *, spec: EnvironmentSpec | None, file: Path, stacks: Iterable[StackState], checkout: Checkout
) -> None:
    """Reject destruction unless protection is lifted in the file, in git, and in the deployed stacks.

    `spec` is None without a file; then only the deployed stacks decide.
    """
    if spec is not None:
        reject_protected(spec, file)
    if rejection := next(_rejections(name, spec, file, list(stacks), checkout), None):
        message, remedy = rejection
        raise ProtectedError(message, remedy=remedy)


def reject_protected(spec: EnvironmentSpec, file: Path) -> None:
    """Reject an environment that its file protects."""
    if spec.is_protected:
        why = "" if spec.protected else " (the default when `removal` retains data)"
        raise ProtectedError(
            f"environment {spec.name!r} is protected by {shown_path(file)}{why}",
            remedy="set `protected: false`, merge the change, "
            f"run `tritonstack deploy {spec.name}`, and retry",
        )


def _rejections(
    name: str, spec: EnvironmentSpec | None, file: Path, stacks: Sequence[StackState], checkout: Checkout
) -> Iterator[tuple[str, str]]:
    shown = shown_path(file)
    locked = [stack.name for stack in stacks if stack.protected]
    if locked:
        yield (
            f"the deployed stacks of environment {name!r} are protected: {', '.join(locked)}",
            f"{shown} lifts the protection: run `tritonstack deploy {name}` and retry"
            if spec
            else f"restore {shown} with `protected: false`, deploy it, and retry",
        )
    if spec is not None and spec.protected is False and not _is_committed(checkout, file):
        yield (
            f"`protected: false` in {shown} is not committed",
            "commit it, so that others can review the change",
        )


def needs_its_name(spec: EnvironmentSpec | None, *, file: Path, keeps_data: bool, checkout: Checkout) -> bool:
    """Return whether destruction requires typing the environment's name.

    `keeps_data` comes from its deployed stacks.
    """
    if keeps_data or (spec is not None and (spec.removal == "retain" or spec.protected is not None)):
        return True
    return any(_protects(text) for text in _versions(checkout, file))


def _is_committed(checkout: Checkout, file: Path) -> bool:
    """Return whether git has the current file; True without git."""
    return not checkout.exists or checkout.file_at("HEAD", file) == file.read_text(encoding="utf-8")


def _versions(checkout: Checkout, file: Path) -> Iterator[str]:
    """Yield all versions of a file in git, latest first."""
    for commit in checkout.changes_of(file):
        text = checkout.file_at(commit.id, file)
        if text is not None:
            yield text


def _protects(text: str) -> bool:
    """Return whether any version of an environment's file protects it."""
    try:
        data = load_yaml(text)
    except yaml.YAMLError:
        return False  # never deployed from this version
    if not isinstance(data, dict):
        return False
    protected = data.get("protected")
    return bool(data.get("removal") != "destroy" if protected is None else protected)

"""`tritonstack quotas`: list the AWS quotas that an environment needs."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.operate.deploy.preflight import AccountQuota
from tritonstack.operate.project.quotas import quotas as run


def quotas(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to count.", autocompletion=complete_environment)
    ],
) -> None:
    """List the AWS quotas that an environment needs at peak load, updates included, with the reasons.

    If the account is reachable, its value and the quota's code are listed too, with the command that requests
    an increase where the value is lower. Increases can take days.

    Example: tritonstack quotas prod
    """
    state: Context = context.obj
    result = run(state, environment)
    state.output.result(result, text=_listing(result.quotas))
    if result.unread:
        state.output.note(f"the account's quotas were not read: {result.unread}")
    state.output.note(
        f"Quotas count everything that account {result.account} runs in {result.region}: add what else runs "
        "there.\nA quota does not reserve capacity: AWS may still have no free instance of a type."
    )


def _listing(quotas: tuple[AccountQuota, ...]) -> str:
    """Return the values in columns, each with its quota and the reasons, and the request if it is too low."""
    if not quotas:
        return "none: the environment has no endpoints"
    rows = [("needed", "account", "quota")]
    below: list[list[str]] = [[]]
    for quota in quotas:
        code = f" {quota.code}" if quota.code else ""
        value = "?" if quota.account_value is None else f"{quota.account_value:g}"
        rows.append((f"{quota.value:,}", value, f"{quota.name} ({quota.service}{code})"))
        below.append([*quota.reasons, *([quota.request] if quota.request else [])])
    lines = []
    for (needed, value, name), details in zip(rows, below, strict=True):
        lines.append(f"{needed:>6}  {value:>7}  {name}")
        lines += [f"{'':17}  {detail}" for detail in details]
    return "\n".join(lines)

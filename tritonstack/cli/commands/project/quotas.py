"""`tritonstack quotas`: list the AWS quotas that an environment needs."""

from __future__ import annotations

from typing import Annotated

import typer

from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.workflows.project.quotas import Quota
from tritonstack.workflows.project.quotas import quotas as run


def quotas(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to count.", autocompletion=complete_environment)
    ],
) -> None:
    """List the AWS quotas that an environment needs at peak load, updates included, with the reasons.

    No AWS call is made. Compare the list with the quotas of the account, and request increases in advance.

    Example: tritonstack quotas prod
    """
    state: Context = context.obj
    found = run(state, environment)
    state.output.result(found.to_json(), text=_listing(found.quotas))
    state.output.note(
        f"Quotas count everything that account {found.account} runs in {found.region}: add what else runs "
        "there.\n`aws service-quotas list-service-quotas --service-code sagemaker` shows the quotas of the "
        "account.\nA quota does not reserve capacity: AWS may still have no free instance of a type."
    )


def _listing(needed: tuple[Quota, ...]) -> str:
    """Return the values in a column, each with its quota and the reasons."""
    width = max((len(f"{quota.value:,}") for quota in needed), default=0)
    lines = []
    for quota in needed:
        lines.append(f"{quota.value:>{width},}  {quota.name} ({quota.service})")
        lines += [f"{'':{width}}    {reason}" for reason in quota.reasons]
    return "\n".join(lines) or "none: the environment has no endpoints"

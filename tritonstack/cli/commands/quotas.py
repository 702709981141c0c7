"""`tritonstack quotas`: the service quotas that an environment needs, to be asked for in time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tritonstack.cli.completion import complete_environment
from tritonstack.cli.context import Context
from tritonstack.project.loading import load_workspace
from tritonstack.project.quotas import Quota, needed_quotas


def quotas(
    context: typer.Context,
    environment: Annotated[
        str, typer.Argument(help="The environment to count.", autocompletion=complete_environment)
    ],
) -> None:
    """Print the AWS quotas that an environment needs at its busiest, updates included, and what for.

    Nothing is asked of AWS: compare with what the account has, and ask for the difference in time.

    Example: tritonstack quotas prod
    """
    state: Context = context.obj
    spec = load_workspace(state.project, environment).spec
    needed = needed_quotas(spec)
    state.output.result(
        {
            "environment": environment,
            "account": spec.account,
            "region": spec.region,
            "quotas": [asdict(quota) for quota in needed],
        },
        text=_listing(needed),
    )
    state.output.note(
        f"Quotas hold for all that account {spec.account} runs in {spec.region}: add what else is there.\n"
        "`aws service-quotas list-service-quotas --service-code sagemaker` shows what the account has.\n"
        "A quota is leave to ask for machines; whether AWS has any free shows only when they are asked for."
    )


def _listing(needed: tuple[Quota, ...]) -> str:
    """The numbers in a column, each with its quota and what it is for."""
    width = max((len(f"{quota.value:,}") for quota in needed), default=0)
    lines = []
    for quota in needed:
        lines.append(f"{quota.value:>{width},}  {quota.name} ({quota.service})")
        lines += [f"{'':{width}}    {reason}" for reason in quota.reasons]
    return "\n".join(lines)

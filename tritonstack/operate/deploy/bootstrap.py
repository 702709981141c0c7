"""Check the CDK bootstrap of an account, and run it if allowed."""

from __future__ import annotations

import shlex

from tritonstack.base.errors import TritonstackError
from tritonstack.facts.bootstrap import CDK_QUALIFIER, Bootstrap
from tritonstack.operate.shared.aws import Cloud, if_present
from tritonstack.operate.shared.session import Session, Step
from tritonstack.operate.synth.assembly import Assembly
from tritonstack.operate.synth.cdk import CdkCli


def show_event(step: Step, line: str) -> None:
    """Report a line of the CDK if it is an event of a resource; a terminal keeps only failures."""
    columns = [column.strip() for column in line.split(" | ")]
    if len(columns) != 6:
        return
    _, progress, _, status, kind, resource = columns
    text = f"{progress:>5} {status} {kind} {resource.partition(' (')[0]}"
    if step.interactive and "FAILED" not in status:
        step.update(text)
    else:
        step.log(text)


class NotBootstrappedError(TritonstackError):
    """The CDK has not prepared the account and region yet. Run `cdk bootstrap` once, or deploy with
    `--bootstrap`.
    """

    code = "TS504"
    title = "Account not bootstrapped"


def lacks_bootstrap(cloud: Cloud, bootstrap: Bootstrap, *, allowed: bool | None) -> bool:
    """Return True if the account needs a bootstrap; raise if that is not allowed.

    `allowed` is None if the command has no option for it.
    """
    if if_present(cloud.client("ssm").get_parameter, Name=bootstrap.version_parameter):
        return False
    if not allowed:
        is_default = bootstrap.qualifier == CDK_QUALIFIER
        qualifier_note = "" if is_default else f" under the qualifier {bootstrap.qualifier!r}"
        remedies = [f"run `cdk bootstrap {shlex.join(bootstrap.arguments)} -c env=<name>` once"]
        if allowed is not None:
            remedies.append("add --bootstrap")
        if "AWS_ENDPOINT_URL" in cloud.variables:
            remedies.reverse()  # the CDK CLI alone has no credentials of the local cloud
        raise NotBootstrappedError(
            f"account {bootstrap.account} in {bootstrap.region} is not bootstrapped{qualifier_note}",
            remedy=", or ".join(remedies),
        )
    return True


def bootstrap_account(session: Session, cdk: CdkCli, bootstrap: Bootstrap, assembly: Assembly) -> None:
    """Run `cdk bootstrap`. It loads the stacks without need; the assembly saves another synthesis."""
    with session.reporter.step(f"bootstrapping {' '.join(bootstrap.arguments)}") as step:
        cdk.run(
            "bootstrap",
            *bootstrap.arguments,
            assembly=assembly.folder,
            on_line=lambda line: show_event(step, line),
        )

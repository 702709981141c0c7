"""Whether the CDK has prepared the account that an environment lives in."""

from __future__ import annotations

from catalog.errors import TritonstackError
from cli.context import Context
from operations.aws import Cloud
from operations.deploying.cdk import CdkCli
from operations.stacks import is_bootstrapped


def require_bootstrap(state: Context, cloud: Cloud, cdk: CdkCli, *, allowed: bool | None) -> None:
    """Prepare the account if that is allowed, and say what to do if it is not.

    `allowed` is None where the command has no option for it.
    """
    if is_bootstrapped(cloud):
        return
    target = f"aws://{cloud.account}/{cloud.region}"
    if not allowed:
        raise TritonstackError(
            f"the CDK has not prepared account {cloud.account} in {cloud.region}",
            remedy=f"run `npx cdk bootstrap {target}` once"
            + (", or add --bootstrap" if allowed is not None else ""),
        )
    with state.output.step(f"bootstrapping {target}") as step:
        cdk.run("bootstrap", target, on_line=step.log)

"""List the AWS quotas that an environment needs, beside those of its account."""

from __future__ import annotations

from dataclasses import dataclass

from tritonstack.base.errors import TritonstackError
from tritonstack.base.results import Internal
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.quotas import needed_quotas
from tritonstack.operate.deploy.preflight import AccountQuota, read_quotas
from tritonstack.operate.shared.aws import AWS_ERRORS
from tritonstack.operate.shared.session import Session


@dataclass(frozen=True)
class NeededQuotas:
    """The quotas that an environment needs at peak load, updates included."""

    environment: str
    account: str
    region: str
    quotas: tuple[AccountQuota, ...]
    unread: Internal[str] = ""
    """Why the account's quotas are not known; empty if they are."""


def quotas(session: Session, environment: str) -> NeededQuotas:
    """Return the quotas that an environment needs, with the account's values if it is reachable."""
    spec = load_workspace(session.project, environment).spec
    needed = tuple(AccountQuota(**vars(quota), region=spec.region) for quota in needed_quotas(spec))
    unread = ""
    try:
        cloud = session.cloud(spec)
        with session.reporter.step("reading the account's quotas"):
            needed = tuple(read_quotas(cloud, spec))
    except TritonstackError as error:
        unread = error.message
    except AWS_ERRORS as error:
        unread = str(error)
    return NeededQuotas(environment, spec.account, spec.region, needed, unread)

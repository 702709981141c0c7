"""List the AWS quotas that an environment needs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tritonstack.project.loading import load_workspace
from tritonstack.project.quotas import Quota, needed_quotas
from tritonstack.workflows.session import Session

__all__ = ["NeededQuotas", "Quota", "quotas"]


@dataclass(frozen=True)
class NeededQuotas:
    """The quotas that an environment needs at peak load, updates included."""

    environment: str
    account: str
    region: str
    quotas: tuple[Quota, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the quotas as JSON data."""
        return {
            "environment": self.environment,
            "account": self.account,
            "region": self.region,
            "quotas": [asdict(quota) for quota in self.quotas],
        }


def quotas(session: Session, environment: str) -> NeededQuotas:
    """Return the quotas that an environment needs. Makes no AWS call."""
    spec = load_workspace(session.project, environment).spec
    return NeededQuotas(environment, spec.account, spec.region, needed_quotas(spec))

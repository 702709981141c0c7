"""What the commands do, as Python functions: no typer, no rich.

Scripts import from here: `from tritonstack.workflows import Session, deploy, verify`. docs/python.md lists
the functions and their results. Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritonstack.workflows.builds.build import build as build
    from tritonstack.workflows.builds.planning import plan_build as plan_build
    from tritonstack.workflows.deployment.deploy import deploy as deploy
    from tritonstack.workflows.deployment.diff import diff as diff
    from tritonstack.workflows.deployment.instance_request import InstanceRequest as InstanceRequest
    from tritonstack.workflows.deployment.rollback import rollback as rollback
    from tritonstack.workflows.deployment.verify import verify as verify
    from tritonstack.workflows.environments.audit import audit as audit
    from tritonstack.workflows.environments.deployed import LocationFilter as LocationFilter
    from tritonstack.workflows.environments.destroy import destroy as destroy
    from tritonstack.workflows.environments.destroy import plan_destruction as plan_destruction
    from tritonstack.workflows.environments.history import history as history
    from tritonstack.workflows.environments.invoke import invoke as invoke
    from tritonstack.workflows.environments.reap import reap as reap
    from tritonstack.workflows.environments.status import status as status
    from tritonstack.workflows.installation.doctor import doctor as doctor
    from tritonstack.workflows.installation.setup import setup as setup
    from tritonstack.workflows.local.down import down as down
    from tritonstack.workflows.local.down import down_all as down_all
    from tritonstack.workflows.local.up import CloudOptions as CloudOptions
    from tritonstack.workflows.local.up import up as up
    from tritonstack.workflows.project.delivery import delivery as delivery
    from tritonstack.workflows.project.quotas import quotas as quotas
    from tritonstack.workflows.project.validate import validate as validate
    from tritonstack.workflows.promotion.promote import PromotionRequest as PromotionRequest
    from tritonstack.workflows.promotion.promote import plan_promotion as plan_promotion
    from tritonstack.workflows.promotion.promote import promote as promote
    from tritonstack.workflows.reporter import NullReporter as NullReporter
    from tritonstack.workflows.reporter import Reporter as Reporter
    from tritonstack.workflows.session import Session as Session

_MODULES = {
    "CloudOptions": "local.up",
    "InstanceRequest": "deployment.instance_request",
    "LocationFilter": "environments.deployed",
    "NullReporter": "reporter",
    "PromotionRequest": "promotion.promote",
    "Reporter": "reporter",
    "Session": "session",
    "audit": "environments.audit",
    "build": "builds.build",
    "delivery": "project.delivery",
    "deploy": "deployment.deploy",
    "destroy": "environments.destroy",
    "diff": "deployment.diff",
    "doctor": "installation.doctor",
    "down": "local.down",
    "down_all": "local.down",
    "history": "environments.history",
    "invoke": "environments.invoke",
    "plan_build": "builds.planning",
    "plan_destruction": "environments.destroy",
    "plan_promotion": "promotion.promote",
    "promote": "promotion.promote",
    "quotas": "project.quotas",
    "reap": "environments.reap",
    "rollback": "deployment.rollback",
    "setup": "installation.setup",
    "status": "environments.status",
    "up": "local.up",
    "validate": "project.validate",
    "verify": "deployment.verify",
}
"""Public name -> its module below this package."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)

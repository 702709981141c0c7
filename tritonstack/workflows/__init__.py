"""What the commands do, as Python functions: no typer, no rich.

Scripts import from here: `from tritonstack.workflows import Session, deploy, verify`. docs/python.md lists
the functions and their results. Each name is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tritonstack.workflows.artifacts.importing import ImportOptions as ImportOptions
    from tritonstack.workflows.artifacts.importing import import_model as import_model
    from tritonstack.workflows.artifacts.repository_check import check_repository as check_repository
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
    from tritonstack.workflows.environments.logs import LogQuery as LogQuery
    from tritonstack.workflows.environments.logs import follow_logs as follow_logs
    from tritonstack.workflows.environments.logs import logs as logs
    from tritonstack.workflows.environments.reap import reap as reap
    from tritonstack.workflows.environments.status import status as status
    from tritonstack.workflows.environments.targets import targets as targets
    from tritonstack.workflows.installation.doctor import doctor as doctor
    from tritonstack.workflows.installation.setup import setup as setup
    from tritonstack.workflows.invocation.invoke import InvokeOptions as InvokeOptions
    from tritonstack.workflows.invocation.invoke import invoke as invoke
    from tritonstack.workflows.invocation.snippet import snippet as snippet
    from tritonstack.workflows.local.dev import dev as dev
    from tritonstack.workflows.local.down import down as down
    from tritonstack.workflows.local.down import down_all as down_all
    from tritonstack.workflows.local.up import CloudOptions as CloudOptions
    from tritonstack.workflows.local.up import up as up
    from tritonstack.workflows.project.delivery import delivery as delivery
    from tritonstack.workflows.project.inspection import inspect as inspect
    from tritonstack.workflows.project.quotas import quotas as quotas
    from tritonstack.workflows.project.validate import validate as validate
    from tritonstack.workflows.promotion.promote import PromotionRequest as PromotionRequest
    from tritonstack.workflows.promotion.promote import plan_promotion as plan_promotion
    from tritonstack.workflows.promotion.promote import promote as promote
    from tritonstack.workflows.reporter import NullReporter as NullReporter
    from tritonstack.workflows.reporter import Reporter as Reporter
    from tritonstack.workflows.reports.report import ReportOptions as ReportOptions
    from tritonstack.workflows.reports.report import report as report
    from tritonstack.workflows.reports.report import watch_report as watch_report
    from tritonstack.workflows.session import Session as Session
    from tritonstack.workflows.sizing.bench import LoadOptions as LoadOptions
    from tritonstack.workflows.sizing.bench import bench as bench
    from tritonstack.workflows.sizing.bench import plan_bench as plan_bench
    from tritonstack.workflows.sizing.simulate import simulate as simulate
    from tritonstack.workflows.sizing.simulate import write_proposal as write_proposal
    from tritonstack.workflows.sizing.simulation_options import SimulationOptions as SimulationOptions
    from tritonstack.workflows.sizing.tune import end_search as end_search
    from tritonstack.workflows.sizing.tune import tune as tune
    from tritonstack.workflows.sizing.tune_options import TuneOptions as TuneOptions
    from tritonstack.workflows.sizing.tune_planning import plan_tuning as plan_tuning

_MODULES = {
    "CloudOptions": "local.up",
    "ImportOptions": "artifacts.importing",
    "InstanceRequest": "deployment.instance_request",
    "InvokeOptions": "invocation.invoke",
    "LoadOptions": "sizing.bench",
    "LocationFilter": "environments.deployed",
    "LogQuery": "environments.logs",
    "NullReporter": "reporter",
    "PromotionRequest": "promotion.promote",
    "ReportOptions": "reports.report",
    "Reporter": "reporter",
    "Session": "session",
    "SimulationOptions": "sizing.simulation_options",
    "TuneOptions": "sizing.tune_options",
    "audit": "environments.audit",
    "bench": "sizing.bench",
    "build": "builds.build",
    "check_repository": "artifacts.repository_check",
    "delivery": "project.delivery",
    "deploy": "deployment.deploy",
    "destroy": "environments.destroy",
    "dev": "local.dev",
    "diff": "deployment.diff",
    "doctor": "installation.doctor",
    "down": "local.down",
    "down_all": "local.down",
    "end_search": "sizing.tune",
    "follow_logs": "environments.logs",
    "history": "environments.history",
    "import_model": "artifacts.importing",
    "inspect": "project.inspection",
    "invoke": "invocation.invoke",
    "logs": "environments.logs",
    "plan_bench": "sizing.bench",
    "plan_build": "builds.planning",
    "plan_destruction": "environments.destroy",
    "plan_promotion": "promotion.promote",
    "plan_tuning": "sizing.tune_planning",
    "promote": "promotion.promote",
    "quotas": "project.quotas",
    "reap": "environments.reap",
    "report": "reports.report",
    "rollback": "deployment.rollback",
    "setup": "installation.setup",
    "simulate": "sizing.simulate",
    "snippet": "invocation.snippet",
    "status": "environments.status",
    "targets": "environments.targets",
    "tune": "sizing.tune",
    "up": "local.up",
    "validate": "project.validate",
    "verify": "deployment.verify",
    "watch_report": "reports.report",
    "write_proposal": "sizing.simulate",
}
"""Public name -> its module below this package."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)

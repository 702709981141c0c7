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

_NAMES = {
    "artifacts.importing": "ImportOptions import_model",
    "artifacts.repository_check": "check_repository",
    "builds.build": "build",
    "builds.planning": "plan_build",
    "deployment.deploy": "deploy",
    "deployment.diff": "diff",
    "deployment.instance_request": "InstanceRequest",
    "deployment.rollback": "rollback",
    "deployment.verify": "verify",
    "environments.audit": "audit",
    "environments.deployed": "LocationFilter",
    "environments.destroy": "destroy plan_destruction",
    "environments.history": "history",
    "environments.logs": "LogQuery follow_logs logs",
    "environments.reap": "reap",
    "environments.status": "status",
    "environments.targets": "targets",
    "installation.doctor": "doctor",
    "installation.setup": "setup",
    "invocation.invoke": "InvokeOptions invoke",
    "invocation.snippet": "snippet",
    "local.dev": "dev",
    "local.down": "down down_all",
    "local.up": "CloudOptions up",
    "project.delivery": "delivery",
    "project.inspection": "inspect",
    "project.quotas": "quotas",
    "project.validate": "validate",
    "promotion.promote": "PromotionRequest plan_promotion promote",
    "reporter": "NullReporter Reporter",
    "reports.report": "ReportOptions report watch_report",
    "session": "Session",
    "sizing.bench": "LoadOptions bench plan_bench",
    "sizing.simulate": "simulate write_proposal",
    "sizing.simulation_options": "SimulationOptions",
    "sizing.tune": "end_search tune",
    "sizing.tune_options": "TuneOptions",
    "sizing.tune_planning": "plan_tuning",
}
"""Module below this package -> its public names."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)

"""Deploy machine-learning models to NVIDIA Triton on Amazon SageMaker with AWS CDK.

Scripts call what the commands do: `from tritonstack import Session, deploy, verify`. docs/python.md lists the
functions and their results. Each name is imported on first use; type checkers read `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module

_NAMES = {
    "artifacts.importing": "ImportOptions import_model",
    "artifacts.repository_check": "check_repository",
    "audit.audit": "audit",
    "build.build": "build",
    "build.planning": "plan_build",
    "deploy.deploy": "deploy",
    "deploy.instances": "InstanceRequest",
    "destroy.destroy": "destroy plan_destruction",
    "destroy.reap": "reap",
    "diff.diff": "diff",
    "invoke.invoke": "InvokeOptions invoke",
    "invoke.snippet": "snippet",
    "local.dev": "dev",
    "local.clouds": "CloudOptions down down_all up",
    "logs.logs": "LogQuery follow_logs logs",
    "project.delivery": "delivery",
    "project.inspection": "inspect",
    "project.quotas": "quotas",
    "project.setup": "doctor setup",
    "project.validate": "validate",
    "promote.promote": "PromotionRequest plan_promotion promote",
    "report.report": "ReportOptions report watch_report",
    "rollback.rollback": "rollback",
    "shared.deployed": "LocationFilter",
    "shared.session": "NullReporter Reporter Session",
    "status.history": "history",
    "status.status": "status",
    "status.targets": "targets",
    "verify.verify": "verify",
}
"""Module below `tritonstack.operate` -> its public names."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.operate.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)

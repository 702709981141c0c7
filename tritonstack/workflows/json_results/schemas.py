"""The JSON Schema of each command's `--json` output. `python -m tools.schemas` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tritonstack.project.schemas import FOLDER
from tritonstack.workflows.json_results import environment_results as environments
from tritonstack.workflows.json_results import project_results as projects
from tritonstack.workflows.json_results import sizing_results as sizing
from tritonstack.workflows.json_results.shape import ErrorJson

RESULTS: Mapping[str, Any] = {
    "audit": dict[str, environments.AuditReportJson],
    "bench": sizing.BenchJson,
    "build": projects.BuildJson | projects.BuildPlanJson,
    "ci": projects.PreviousDeployJson | projects.ProposalJson | projects.CommentJson,
    "delivery": projects.DeliveryJson,
    "deploy": environments.DeployJson,
    "destroy": environments.DestroyJson | environments.DestroyPlanJson,
    "dev": projects.ServedVersionJson | projects.DevErrorJson,
    "diff": environments.DiffJson,
    "doctor": projects.InstallationJson | projects.RepositoryJson,
    "down": projects.DownJson | projects.DownAllJson,
    "explain": projects.CodeJson | projects.CodesJson,
    "history": environments.HistoryJson,
    "import": projects.ImportJson,
    "init": projects.InitJson,
    "inspect": projects.InspectionJson,
    "invoke": environments.InvokeJson,
    "logs": environments.LogsJson | environments.LogLineJson,
    "new": projects.NewJson,
    "promote": environments.PromoteJson | environments.PromotePlanJson,
    "quotas": projects.QuotasJson,
    "reap": environments.ReapJson,
    "report": environments.ReportFileJson,
    "rollback": environments.RollbackJson,
    "setup": projects.SetupJson,
    "simulate": sizing.SimulateJson,
    "snippet": environments.SnippetJson,
    "status": environments.StatusJson,
    "targets": environments.TargetsJson,
    "tune": sizing.TuneJson,
    "up": projects.CloudJson | projects.CapabilitiesJson,
    "upgrade": projects.UpgradeJson,
    "validate": projects.ValidationJson,
    "verify": environments.VerifyJson,
}
"""The type of each command's result. A command that fails prints an `ErrorJson` instead."""


def result_schema_files() -> Iterator[tuple[Path, str]]:
    """Yield each schema file and its text."""
    for name, result in {**RESULTS, "error": ErrorJson}.items():
        body = TypeAdapter(result).json_schema(by_alias=True, mode="serialization")
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **body}
        yield FOLDER / "results" / f"{name}.schema.json", json.dumps(schema, indent=2) + "\n"

"""The type of each command's result: what `--json` prints if the command does not fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack.workflows.artifacts.importing import ImportResult
from tritonstack.workflows.artifacts.repository_check import RepositoryCheck
from tritonstack.workflows.builds.build import BuildResult
from tritonstack.workflows.builds.planning import BuildPlan
from tritonstack.workflows.error_codes import ErrorCodes, ExplainedCode
from tritonstack.workflows.github import PreviousDeploy, ProposedChange, WrittenComment
from tritonstack.workflows.installation.doctor import Installation
from tritonstack.workflows.installation.setup import ProjectSetup
from tritonstack.workflows.json_results import environment_results as environments
from tritonstack.workflows.json_results import project_results as projects
from tritonstack.workflows.json_results import sizing_results as sizing
from tritonstack.workflows.new_files import NewFiles
from tritonstack.workflows.project.delivery import DeliveryPlan
from tritonstack.workflows.project.inspection import Inspection
from tritonstack.workflows.project.quotas import NeededQuotas
from tritonstack.workflows.project.repository import CreatedRepository, PinnedVersion
from tritonstack.workflows.project.validate import Validation

RESULTS: Mapping[str, Any] = {
    "audit": dict[str, environments.AuditReportJson],
    "bench": sizing.BenchJson,
    "build": BuildResult | BuildPlan,
    "ci": PreviousDeploy | ProposedChange | WrittenComment,
    "delivery": DeliveryPlan,
    "deploy": environments.DeployJson,
    "destroy": environments.DestroyJson | environments.DestroyPlanJson,
    "dev": projects.ServedVersionJson | projects.DevErrorJson,
    "diff": environments.DiffJson,
    "doctor": Installation | RepositoryCheck,
    "down": projects.DownJson | projects.DownAllJson,
    "explain": ExplainedCode | ErrorCodes,
    "history": environments.HistoryJson,
    "import": ImportResult,
    "init": CreatedRepository,
    "inspect": Inspection,
    "invoke": environments.InvokeJson,
    "logs": environments.LogsJson | environments.LogLineJson,
    "new": NewFiles,
    "promote": environments.PromoteJson | environments.PromotePlanJson,
    "quotas": NeededQuotas,
    "reap": environments.ReapJson,
    "report": environments.ReportFileJson,
    "rollback": environments.RollbackJson,
    "setup": ProjectSetup,
    "simulate": sizing.SimulateJson,
    "snippet": environments.SnippetJson,
    "status": environments.StatusJson,
    "targets": environments.TargetsJson,
    "tune": sizing.TuneJson,
    "up": projects.CloudJson | projects.CapabilitiesJson,
    "upgrade": PinnedVersion,
    "validate": Validation,
    "verify": environments.VerifyJson,
}

"""The type of each command's result: what `--json` prints if the command does not fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack.workflows.json_results import environment_results as environments
from tritonstack.workflows.json_results import project_results as projects
from tritonstack.workflows.json_results import sizing_results as sizing

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

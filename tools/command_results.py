"""The type of each command's result: what `--json` prints if the command does not fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack.operations.logs.reading import LogLine
from tritonstack.operations.verification.verdicts import Verdict
from tritonstack.workflows.artifacts.importing import ImportResult
from tritonstack.workflows.artifacts.repository_check import RepositoryCheck
from tritonstack.workflows.builds.build import BuildResult
from tritonstack.workflows.builds.planning import BuildPlan
from tritonstack.workflows.deployment.deploy import Deployment
from tritonstack.workflows.deployment.diff import DeployOutlook
from tritonstack.workflows.deployment.rollback import Rollback
from tritonstack.workflows.environments.audit import Audit
from tritonstack.workflows.environments.destroy import Destruction, DestructionPlan
from tritonstack.workflows.environments.history import ModelHistory
from tritonstack.workflows.environments.logs import Logs
from tritonstack.workflows.environments.reap import Reaping
from tritonstack.workflows.environments.status import Statuses
from tritonstack.workflows.environments.targets import Targets
from tritonstack.workflows.error_codes import ErrorCodes, ExplainedCode
from tritonstack.workflows.github import PreviousDeploy, ProposedChange, WrittenComment
from tritonstack.workflows.installation.doctor import Installation
from tritonstack.workflows.installation.setup import ProjectSetup
from tritonstack.workflows.invocation.invoke import Invocation
from tritonstack.workflows.invocation.snippet import Snippet
from tritonstack.workflows.local.dev import FailedVersion, ServedVersion
from tritonstack.workflows.local.down import StoppedCloud, StoppedClouds
from tritonstack.workflows.local.up import RunningCloud
from tritonstack.workflows.new_files import NewFiles
from tritonstack.workflows.project.delivery import DeliveryPlan
from tritonstack.workflows.project.inspection import Inspection
from tritonstack.workflows.project.quotas import NeededQuotas
from tritonstack.workflows.project.repository import CreatedRepository, PinnedVersion
from tritonstack.workflows.project.validate import Validation
from tritonstack.workflows.promotion.results import Promotion, PromotionPlan
from tritonstack.workflows.reports.report import WrittenReport
from tritonstack.workflows.sizing.bench import Benchmark
from tritonstack.workflows.sizing.simulate import Simulation
from tritonstack.workflows.sizing.tune import Tuning
from tritonstack_local.coverage import Capabilities

RESULTS: Mapping[str, Any] = {
    "audit": Audit,
    "bench": Benchmark,
    "build": BuildResult | BuildPlan,
    "ci": PreviousDeploy | ProposedChange | WrittenComment,
    "delivery": DeliveryPlan,
    "deploy": Deployment,
    "destroy": Destruction | DestructionPlan,
    "dev": ServedVersion | FailedVersion,
    "diff": DeployOutlook,
    "doctor": Installation | RepositoryCheck,
    "down": StoppedCloud | StoppedClouds,
    "explain": ExplainedCode | ErrorCodes,
    "history": ModelHistory,
    "import": ImportResult,
    "init": CreatedRepository,
    "inspect": Inspection,
    "invoke": Invocation,
    "logs": Logs | LogLine,
    "new": NewFiles,
    "promote": Promotion | PromotionPlan,
    "quotas": NeededQuotas,
    "reap": Reaping,
    "report": WrittenReport,
    "rollback": Rollback,
    "setup": ProjectSetup,
    "simulate": Simulation,
    "snippet": Snippet,
    "status": Statuses,
    "targets": Targets,
    "tune": Tuning,
    "up": RunningCloud | Capabilities,
    "upgrade": PinnedVersion,
    "validate": Validation,
    "verify": Verdict,
}

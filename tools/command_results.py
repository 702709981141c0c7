"""The type of each command's result: what `--json` prints if the command does not fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tritonstack.operate.artifacts.importing import ImportResult
from tritonstack.operate.artifacts.repository_check import RepositoryCheck
from tritonstack.operate.audit.audit import Audit
from tritonstack.operate.build.build import BuildResult
from tritonstack.operate.build.planning import BuildPlan
from tritonstack.operate.deploy.deploy import Deployment
from tritonstack.operate.destroy.destroy import Destruction, DestructionPlan
from tritonstack.operate.destroy.reap import Reaping
from tritonstack.operate.diff.diff import DeployOutlook
from tritonstack.operate.invoke.invoke import Invocation
from tritonstack.operate.invoke.snippet import Snippet
from tritonstack.operate.local.clouds import RunningCloud, StoppedCloud, StoppedClouds
from tritonstack.operate.local.dev import FailedVersion, ServedVersion
from tritonstack.operate.logs.logs import Logs
from tritonstack.operate.logs.reading import LogLine
from tritonstack.operate.project.delivery import DeliveryPlan
from tritonstack.operate.project.error_codes import ErrorCodes, ExplainedCode
from tritonstack.operate.project.github import PreviousDeploy, ProposedChange, WrittenComment
from tritonstack.operate.project.inspection import Inspection
from tritonstack.operate.project.quotas import NeededQuotas
from tritonstack.operate.project.repository import CreatedRepository, PinnedVersion
from tritonstack.operate.project.setup import Installation, ProjectSetup
from tritonstack.operate.project.validate import Validation
from tritonstack.operate.promote.results import Promotion, PromotionPlan
from tritonstack.operate.report.report import WrittenReport
from tritonstack.operate.rollback.rollback import Rollback
from tritonstack.operate.shared.new_files import NewFiles
from tritonstack.operate.status.history import ModelHistory
from tritonstack.operate.status.status import Statuses
from tritonstack.operate.status.targets import Targets
from tritonstack.operate.verify.verdicts import Verdict
from tritonstack_local.coverage import Capabilities
from tritonstack_sizing.loads.bench import Benchmark
from tritonstack_sizing.simulation.simulate import Simulation
from tritonstack_sizing.tuning.tune import Tuning

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

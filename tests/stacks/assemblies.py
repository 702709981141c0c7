"""Projects with complete locks, and their synthesized templates."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from tests.projects import add_builder
from tritonstack.base import naming
from tritonstack.base.paths import Project
from tritonstack.facts.targets import acceptable_targets
from tritonstack.files.loading import load_workspace
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "ab" * 32

MODEL = """\
name: {name}
description: Sentence embeddings.
source: file://weights
recipe: {{kind: text-embedding}}
test_inputs: [A man is eating food.]
"""

SAMPLE = """\
name: sample
account: "123456789012"
region: eu-central-1
triton_release: "25.04"
removal: destroy
alarm_emails: [on-call@example.com]
tags: {team: search}
endpoints:
  plain:
    kind: ensemble
    model: encoder
    instance_type: ml.c7i.xlarge
    scaling: {min_instances: 2, max_instances: 6, invocations_per_instance: 900}
    alarms: {latency_p99_ms: 120, server_errors: 3, client_errors: 40}
    log_retention_days: 14
    startup_timeout_s: 700
    download_timeout_s: 800
  accelerated:
    kind: ensemble
    model: encoder
    instance_type: ml.g5.xlarge
prices: {ml.c7i.xlarge: 0.25}
"""

KEPT = """\
name: kept
account: "123456789012"
region: us-east-1
triton_release: "24.09"
removal: retain
endpoints:
  plain: {kind: ensemble, model: encoder, instance_type: ml.m7i.large}
  fixed:
    kind: ensemble
    model: encoder
    instance_type: ml.m7i.large
    scaling: {min_instances: 3, max_instances: 3}
"""

EVERY = """\
name: every
account: "123456789012"
region: us-east-1
triton_release: "25.04"
removal: destroy
network: {create: {}}
prices: {ml.g5.xlarge: 1.41}
endpoints:
  single:
    kind: single
    model: tokens
    instance_type: ml.c7i.xlarge
    environment: {TOKENIZERS_PARALLELISM: "false"}
  shelf:
    kind: multi-model
    models: [encoder, ranker]
    instance_type: ml.m7i.xlarge
    model_cache: false
    scaling: {min_instances: 2, max_instances: 4}
    rollout: {strategy: canary, percent: 50, wait_s: 300}
  queued:
    kind: ensemble
    model: encoder
    instance_type: ml.c7i.xlarge
    asynchronous: {max_concurrent_per_instance: 3}
    scaling: {min_instances: 0, max_instances: 4}
  component:
    kind: ensemble
    model: encoder
    instance_type: ml.g5.xlarge
    scaling: {min_instances: 0, max_instances: 3}
    components: {memory_mb: 4096, max_copies: 3}
    network_isolation: false
  compared:
    kind: ensemble
    model: encoder
    instance_type: ml.m7i.large
    scaling: {min_instances: 4, max_instances: 8}
    challenger: {model: ranker, share: 0.3}
    rollout: {strategy: linear, step_percent: 50, wait_s: 400, roll_back_on: [server-errors]}
  shadowed:
    kind: ensemble
    model: encoder
    instance_type: ml.m7i.large
    shadow: {instance_type: ml.g5.xlarge, share: 0.5}
    data_capture: {sampling_percent: 5, content: [input]}
  rolled:
    kind: ensemble
    model: encoder
    instance_type: ml.g5.xlarge
    scaling: {min_instances: 4, max_instances: 4}
    inference_ami: al2023-ami-sagemaker-inference-gpu-4-1
    rollout: {strategy: rolling, batch_percent: 25, wait_s: 120, roll_back_on: []}
"""


@dataclass(frozen=True)
class Assembly:
    """The output of one synthesis."""

    workspace: Workspace
    folder: Path

    @property
    def foundation(self) -> Template:
        return self.template(naming.foundation_stack_name(self.workspace.spec.base))

    @property
    def network(self) -> Template:
        return self.template(naming.network_stack_name(self.workspace.spec.base))

    @property
    def stacks(self) -> list[str]:
        """Return the names of all stacks."""
        return sorted(file.name.removesuffix(".template.json") for file in self.templates)

    @property
    def templates(self) -> list[Path]:
        """Return the files of all templates."""
        return sorted(self.folder.glob("*.template.json"))

    def endpoint(self, name: str) -> Template:
        return self.template(naming.endpoint_stack_name(self.workspace.spec.base, name))

    def template(self, stack: str) -> Template:
        return Template.from_json(json.loads(self.text(stack)))

    def text(self, stack: str) -> str:
        return (self.folder / f"{stack}.template.json").read_text()

    def manifest(self, stack: str) -> dict[str, Any]:
        manifest = json.loads((self.folder / "manifest.json").read_text())
        artifact: dict[str, Any] = manifest["artifacts"][stack]
        return artifact


Synthesize = Callable[..., Assembly]


def lock_everything(project: Project, environment: str, *, digest: str = DIGEST) -> Workspace:
    """Write a lock with an artifact for every endpoint, as a build does."""
    workspace = load_workspace(project, environment)
    models: dict[str, dict[str, LockedArtifact]] = {}
    for name in workspace.spec.endpoints:
        for served in workspace.serves(name):
            target = acceptable_targets(served.instance, workspace.spec.release)[-1]
            models.setdefault(served.model, {})[target] = LockedArtifact(
                digest=digest,
                spec_hash=workspace.hashes[served.model],
                archive_bytes=90_000_000,
                unpacked_bytes=180_000_000,
            )
    write_lock(project.lock_file(environment), Lock(models=models))
    return load_workspace(project, environment)


def write_project(folder: Path) -> Project:
    """A project of three models and three environments, without locks."""
    project = Project(folder)
    for file, text in (
        (project.model_file("encoder"), MODEL.format(name="encoder")),
        (project.model_file("ranker"), MODEL.format(name="ranker")),
        (
            project.model_file("tokens"),
            MODEL.format(name="tokens").replace("text-embedding", "text-embedding, input: tokens"),
        ),
        (project.environment_file("sample"), SAMPLE),
        (project.environment_file("kept"), KEPT),
        (project.environment_file("every"), EVERY),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    add_builder(folder)
    for name in ("app.py", "cdk.json"):
        shutil.copy(ROOT / name, folder)
    return project


def cli_context() -> dict[str, object]:
    """Return the context that the CDK CLI gives an app: the flags of cdk.json and its own."""
    settings = json.loads((ROOT / "cdk.json").read_text())
    return {
        **settings["context"],
        "aws:cdk:version-reporting": settings["versionReporting"],
        "aws:cdk:enable-path-metadata": True,
        # It prints what was found and rejects the affected stacks itself.
        "@aws-cdk/core:failSynthOnValidationErrors": False,
    }


def new_app(outdir: Path) -> cdk.App:
    """Return an app as the CDK CLI would start it."""
    return cdk.App(context=cli_context(), outdir=str(outdir))


def messages_of(app: cdk.App) -> list[str]:
    """Synthesize the app; return what the CDK command line would print about its stacks.

    Read from files: aws-cdk-lib and aws-cdk-cloud-assembly-schema install the same module, and jsii knows
    the type of a message only if aws-cdk-lib's copy was installed last.
    """
    assembly = Path(app.synth().directory)
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"].values()
    files = [artifact.get("additionalMetadataFile") for artifact in artifacts]
    printed = {"aws:cdk:info", "aws:cdk:warning", "aws:cdk:error"}
    return [
        str(entry["data"])
        for file in filter(None, files)
        for entries in json.loads((assembly / file).read_text()).values()
        for entry in entries
        if entry["type"] in printed
    ]

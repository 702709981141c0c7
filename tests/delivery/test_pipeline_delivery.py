"""Delivery within AWS, run by the local cloud's own CodePipeline and CodeBuild.

One cloud simulates the tools account and dev's, a second one prod's. The steps run their own commands. What
they install is already on this machine, so the programs that install it are stand-ins; tests/packaging tests
the installation itself. A build in namespaces would reach neither those nor the second cloud, so the clouds
run as on a system that forbids namespaces.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.github.test_github_delivery import environment_of
from tests.delivery.github.workflows import ROOT
from tests.e2e.conftest import Site, furnished_site
from tests.model_build.checking.test_stream_check import write_counting_model
from tests.runtime.test_exposure import FORBIDDING
from tritonstack.operations.aws import Cloud
from tritonstack.operations.events import read_events
from tritonstack.records.locks import load_lock
from tritonstack.runtime.sandbox import why_no_namespaces

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(why_no_namespaces() is not None, reason="this system forbids namespaces"),
]

NAME = "tritonstack-delivery-pipeline"
SOURCE = "team-source"
FILES = (
    "app.py",
    "cdk.json",
    "delivery.yaml",
    "environments",
    "models",
    "containers",
    "requirements.txt",
    "requirements.lock.txt",
)

DELIVERY = f"""\
repository: example/tritonstack
environments: [{{name: dev}}, {{name: prod, approval: true}}]
pipeline: {{account: "000000000000", region: us-east-1, bucket: {{bucket: {SOURCE}}}}}
"""


@dataclass(frozen=True)
class Factory:
    """A site, the cloud that the pipeline runs in, and prod's."""

    site: Site
    tools: Cloud
    prod: Cloud

    def push(self) -> None:
        """Upload the project's files to the pipeline's source bucket."""
        archive = self.site.project.state_dir / "source.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for file in self._files():
                packed.write(file, file.relative_to(self.site.project.root))
        self.tools.client("s3").upload_file(str(archive), SOURCE, "source.zip")

    def _files(self) -> Iterator[Path]:
        for name in FILES:
            place = self.site.project.root / name
            yield from (file for file in place.rglob("*") if file.is_file()) if place.is_dir() else (place,)

    def until(self, action: str, *statuses: str) -> dict[str, Any]:
        """Wait until an action has one of these states; return its output, or why it failed."""
        deadline = time.monotonic() + 240
        while True:
            found = self.states().get(action, {})
            if found.get("status") in statuses:
                return found
            states = self.states().items()
            failed = [self.log(state) for _, state in states if state["status"] == "Failed"]
            assert not failed, "\n".join(failed)
            assert time.monotonic() < deadline, self.states()
            time.sleep(0.5)

    def states(self) -> dict[str, dict[str, Any]]:
        stages = self.tools.client("codepipeline").get_pipeline_state(name=NAME)["stageStates"]
        return {
            action["actionName"]: action["latestExecution"]
            for stage in stages
            for action in stage["actionStates"]
            if "latestExecution" in action
        }

    def log(self, state: dict[str, Any]) -> str:
        """Return the log of a step's build."""
        if "externalExecutionId" not in state:
            return str(state)
        (build,) = self.tools.client("codebuild").batch_get_builds(ids=[state["externalExecutionId"]])[
            "builds"
        ]
        where = build["logs"]
        events = self.tools.client("logs").get_log_events(
            logGroupName=where["groupName"], logStreamName=where["streamName"], startFromHead=True
        )["events"]
        return "".join(event["message"] for event in events)

    def approve(self, action: str) -> None:
        waiting = self.until(action, "InProgress")
        self.tools.client("codepipeline").put_approval_result(
            pipelineName=NAME,
            stageName="prod",
            actionName=action,
            result={"summary": "looks well", "status": "Approved"},
            token=waiting["token"],
        )


@pytest.fixture(scope="module")
def factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Factory]:
    """Both clouds running and bootstrapped, the source in its bucket, and the pipeline deployed."""
    root = tmp_path_factory.mktemp("factory")
    for name in ("models", "containers"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    site = furnished_site(root, shared=("server", "artifacts"))
    write_counting_model(site.project.model_file("counting").parent)
    site.project.environments_dir.mkdir()
    site.project.environment_file("dev").write_text(environment_of("dev", "000000000000"))
    prod = environment_of("prod", "000000000001", promotion={"source": "dev", "verified": True})
    site.project.environment_file("prod").write_text(prod)
    site.project.delivery_file.write_text(DELIVERY)
    (root / "requirements.txt").write_text("tritonstack[cdk,cli]\n")
    (root / "requirements.lock.txt").write_text("# nothing: this machine has the packages\n")
    played = put_programs_on_path(root / "programs", site)
    # The clouds' PATH is the PATH of builds; a person's own commands are real.
    of_builds = {"PATH": f"{played}{os.pathsep}{os.environ['PATH']}"}
    for number in range(2):
        real = str(ROOT / ".venv" / "bin" / "tritonstack")
        up = ("up", "--detach", "--expose", "--account", f"{number:012}")
        Site(site.project, of_builds).run(*FORBIDDING, real, *up)
    for name in ("dev", "prod"):
        prepare(site, name)
    here = Factory(site, site.cloud_of("dev"), site.cloud_of("prod"))
    s3 = here.tools.client("s3")
    s3.create_bucket(Bucket=SOURCE)
    s3.put_bucket_versioning(Bucket=SOURCE, VersioningConfiguration={"Status": "Enabled"})
    here.push()
    yield here
    for number in range(2):
        site.tritonstack("down", "--account", f"{number:012}")


INSTALLATION = {
    "python3": """\
[ "$*" = "-m venv .venv" ] || exit 2
mkdir -p .venv/bin && ln -s {python} .venv/bin/python3
""",
    "pip": """\
lock="install --quiet --no-deps --require-hashes --requirement requirements.lock.txt"
case "$*" in
  "$lock") [ -f requirements.lock.txt ] && touch .venv/locked ;;
  "install --quiet --no-deps --requirement requirements.txt") [ -f requirements.txt -a -f .venv/locked ] ;;
  *) exit 2 ;;
esac
""",
    "tritonstack": """\
if [ "$1" != setup ]; then exec {scripts}/tritonstack "$@"; fi
[ "$*" = "setup --no-server" ] && ln -s {root}/node_modules node_modules
""",
    "cdk": """\
exec {root}/node_modules/.bin/cdk "$@"
""",
}
"""What installs the tool links what this machine has; everything else is real."""


def put_programs_on_path(folder: Path, site: Site) -> Path:
    """Put this machine's programs, with the state of this site, on the builds' PATH."""
    folder.mkdir()
    known = f"export TRITONSTACK_HOME={site.project.state_dir} PYTHONPATH={ROOT}\n"
    python = folder / "python3-of-this-machine"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    places = {"python": python, "scripts": Path(sys.executable).parent, "root": ROOT}
    for name, commands in INSTALLATION.items():
        (folder / name).write_text(f"#!/bin/sh\n{known}{commands.format(**places)}")
        (folder / name).chmod(0o755)
    return folder


def prepare(site: Site, environment: str) -> None:
    """Do the one-time setup of an account."""
    spec = site.spec_of(environment)
    cdk = Site(site.project, site.cloud_of(environment).process_environment())
    cdk.run("cdk", "bootstrap", f"aws://{spec.account}/{spec.region}", "-c", f"env={environment}")
    never = ("--require-approval", "never")
    cdk.run("cdk", "deploy", f"{spec.base}-foundation", "-c", f"env={environment}", *never)


def test_a_person_deploys_the_pipeline_and_it_builds(factory: Factory) -> None:
    variables = factory.tools.process_environment()
    cdk = Site(factory.site.project, variables)
    cdk.run("cdk", "deploy", "-c", "pipeline=main", "--require-approval", "never")
    built = factory.until("Build-dev", "Succeeded")
    assert "minilm-embedding" in factory.log(built)


def test_built_artifacts_are_synthesized(factory: Factory) -> None:
    said = factory.log(factory.until("Synth", "Succeeded"))
    assert "cp handed/*.lock.yaml environments/" in said
    assert "dev.lock.yaml has no artifact" not in said


def test_dev_is_deployed_and_verified(factory: Factory) -> None:
    factory.until("Deploy-dev", "Succeeded")
    factory.until("Verify-dev", "Succeeded")
    assert kinds(factory.tools, factory, "dev")[-2:] == ["deployed", "verified"]
    assert kinds(factory.prod, factory, "prod") == []


def test_prod_waits_for_approval(factory: Factory) -> None:
    factory.until("Approve-prod", "InProgress")
    assert "Promote-prod" not in factory.states()
    factory.approve("Approve-prod")


def test_promotion_is_deployed_and_verified(factory: Factory) -> None:
    for action in ("Promote-prod", "Deploy-prod", "Verify-prod"):
        factory.until(action, "Succeeded")
    assert kinds(factory.prod, factory, "prod") == ["promoted", "promoted", "deployed", "verified"]


def test_the_locks_that_it_ran_are_kept_with_its_execution(factory: Factory, tmp_path: Path) -> None:
    """From there, someone commits them to git."""
    codepipeline = factory.tools.client("codepipeline")
    details = codepipeline.list_action_executions(pipelineName=NAME)["actionExecutionDetails"]
    (promote,) = [item for item in details if item["actionName"] == "Promote-prod"]
    (output,) = promote["output"]["outputArtifacts"]
    place = output["s3location"]
    factory.tools.client("s3").download_file(place["bucket"], place["key"], str(tmp_path / "locks.zip"))
    with zipfile.ZipFile(tmp_path / "locks.zip") as packed:
        packed.extractall(tmp_path)
    dev, prod = (
        load_lock(tmp_path / f"{name}.lock.yaml").record.models["minilm-embedding"]["cpu"]
        for name in ("dev", "prod")
    )
    assert dev.digest == prod.digest
    assert prod.promoted is not None
    assert prod.promoted.source == "dev"


def kinds(cloud: Cloud, factory: Factory, environment: str) -> list[str]:
    spec = factory.site.spec_of(environment)
    return [event.kind for event in read_events(cloud, spec.artifact_bucket)]

"""`tritonstack history`: one table from git and from every reachable environment."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.cli.test_messages import outcome
from tests.files.records.test_locks import BUILT
from tests.git import Repository
from tests.manifests import manifest, measured
from tests.projects import edit
from tritonstack.base.paths import Project
from tritonstack.cli.main import run
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, load_workspace
from tritonstack.files.records.events import Event, TouchedArtifact
from tritonstack.files.records.lock_writing import add_to_lock
from tritonstack.operate.shared.aws import cloud_of
from tritonstack.operate.shared.events import read_events, record_event

DIGEST = "ab" * 32


@pytest.fixture
def built(project):
    add_to_lock(project.lock_file("dev"), [manifest("minilm", **measured())], built=BUILT)
    Repository(project.root).commit("built")
    return project


@pytest.fixture
def deployed(built, account):
    edit(built.environment_file("dev"), "1" * 12, account)
    spec = load_workspace(built, "dev").spec
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=spec.artifact_bucket)
    artifact = TouchedArtifact(model="minilm", target="cpu", digest=DIGEST)
    for kind, at in (("deployed", "2026-11-22T09:00:00Z"), ("verified", "2026-11-22T09:30:00Z")):
        event = Event(kind=kind, environment="dev", at=at, by="ci", artifacts=(artifact,))
        record_event(cloud_of(spec, variables={}), spec.artifact_bucket, event)
    return built


def test_an_event_is_written_again_if_another_write_interfered(deployed, monkeypatch):
    spec = load_workspace(deployed, "dev").spec
    cloud, answers = cloud_of(spec, variables={}), ["409", "ConditionalRequestConflict"]

    def interfere(params: object, **_: object) -> None:
        if answers:
            raise ClientError({"Error": {"Code": answers.pop()}}, "PutObject")

    monkeypatch.setattr(time, "sleep", lambda _: None)
    cloud.client("s3").meta.events.register("before-parameter-build.s3.PutObject", interfere)
    event = Event(kind="verified", environment="dev", at="2026-11-23T09:00:00Z", by="ci")
    record_event(cloud, spec.artifact_bucket, event)
    assert answers == []
    assert event.key in {item.key for item in read_events(cloud, spec.artifact_bucket)}


def test_the_table_lists_builds_and_later_events(deployed, capsys):
    code, out, _ = outcome(capsys, deployed, "history", "minilm")
    assert code == 0
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows[0][:8] == ["abababababab", "cpu", "built", "dev", "2026-11-22", "08:30", "ann", "12121212"]
    assert [row[:4] for row in rows[1:]] == [
        ["deployed", "dev", "2026-11-22", "09:00"],
        ["verified", "dev", "2026-11-22", "09:30"],
    ]


@pytest.fixture
def templated(deployed, account):
    text = deployed.environment_file("dev").read_text().replace("name: dev", "name: ${name}")
    head = "template: {locks: dev, purpose: preview}\nremoval: destroy\n"
    deployed.template_file("preview").write_text(head + text)
    return deployed


def deploy_instance(project: Project) -> None:
    """Deploy as `deploy preview --name pr-1` does: the request that created it, a bucket, an event."""
    instance = Instance("preview", "pr-1", "ann", "2030-01-02T03:04:05Z", {})
    spec = ProjectFiles(project).instance(instance).spec
    boto3.client("ssm", region_name=spec.region).put_parameter(
        Name=f"/{spec.base}/instance", Value=json.dumps(asdict(instance)), Type="String"
    )
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=spec.artifact_bucket)
    artifact = TouchedArtifact(model="minilm", target="cpu", digest=DIGEST)
    event = Event(
        kind="deployed", environment="pr-1", at="2026-11-22T10:00:00Z", by="ci", artifacts=(artifact,)
    )
    record_event(cloud_of(spec, variables={}), spec.artifact_bucket, event)


def test_instance_is_listed_with_the_environment_of_its_lock(templated, capsys):
    arguments = ("--json", "history", "minilm", "--env", "preview", "--name", "pr-1")
    code, out, _ = outcome(capsys, templated, *arguments)
    assert code == 0
    assert ["'pr-1' of preview" in gap for gap in json.loads(out)["incomplete"]] == [True]
    deploy_instance(templated)
    code, out, _ = outcome(capsys, templated, *arguments)
    document = json.loads(out)
    assert (code, document["environments"], document["incomplete"]) == (0, ["dev", "pr-1"], [])
    (artifact,) = document["artifacts"]
    assert [(item["kind"], item["environment"]) for item in artifact["entries"]] == [
        ("built", "dev"),
        ("deployed", "dev"),
        ("verified", "dev"),
        ("deployed", "pr-1"),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["minilmm"], "unknown model 'minilmm'; no lock or event names it"),
        (["minilm", "--env", "dve"], "unknown environment 'dve'"),
    ],
)
def test_unknown_names_get_a_suggestion(built, capsys, arguments, words):
    code, _, err = outcome(capsys, built, "history", *arguments, "--offline")
    assert code == 2
    assert words in err
    assert "did you mean" in err


@pytest.mark.parametrize("command", ["history", "inspect"])
def test_the_only_model_needs_no_name(built, capsys, command):
    options = ["--offline"] if command == "history" else []
    before = ["--project", str(built.root), command]
    assert run([*before, "minilm", *options]) == 0
    named = capsys.readouterr().out
    assert run([*before, *options]) == 0
    assert capsys.readouterr().out == named
    shutil.copytree(built.models_dir / "minilm", built.models_dir / "other")
    edit(built.models_dir / "other" / "model.yaml", "name: minilm", "name: other")
    assert run([*before, *options]) == 2
    assert "minilm, other" in capsys.readouterr().err

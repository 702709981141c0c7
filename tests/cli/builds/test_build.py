"""`tritonstack build`: what it builds on this machine, and what an interruption leaves behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.builds.stand_in_job import stand_in_command
from tests.cli.test_messages import outcome
from tests.moto_aws import simulated_aws
from tests.projects import MODEL, edit
from tritonstack.base.files import short_digest
from tritonstack.base.paths import Project
from tritonstack.cli.context import Context
from tritonstack.files.loading import load_workspace
from tritonstack.files.records.lock_writing import LockChange, replace_entries
from tritonstack.files.records.locks import RolledBack, load_lock
from tritonstack.files.records.manifests import ARCHIVE_NAME, MANIFEST_NAME, parse_manifest
from tritonstack.operate.build import local_build, remote_build
from tritonstack.operate.shared.aws import Cloud
from tritonstack.triton.sandbox import EXPOSE


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(local_build, "build_command", stand_in_command)


def serve(project: Project, *models: str) -> None:
    """Add models, each with its own endpoint."""
    for name in models:
        project.model_file(name).parent.mkdir()
        project.model_file(name).write_text(MODEL.replace("name: minilm", f"name: {name}"))
        with project.environment_file("dev").open("a") as stream:
            stream.write(f"  for-{name}: {{kind: ensemble, model: {name}, instance_type: ml.c7i.xlarge}}\n")


def build(capsys: pytest.CaptureFixture[str], project: Project, *arguments: str) -> tuple[int, str, str]:
    return outcome(capsys, project, "build", "dev", *arguments)


def use_cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Let commands use the simulated AWS."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    cloud = Cloud("111111111111", "us-east-1", keys)
    monkeypatch.setattr(Context, "cloud", lambda *_: cloud)
    return cloud


def started(project: Project) -> list[str]:
    file = project.root / "started.txt"
    return file.read_text().split() if file.exists() else []


def explained(capsys: pytest.CaptureFixture[str], project: Project, *arguments: str) -> str:
    code, out, _ = build(capsys, project, "--explain", *arguments)
    assert code == 0
    return out.strip()


@pytest.mark.usefixtures("stand_in")
def test_nothing_is_built_if_the_lock_is_current(project, capsys):
    assert build(capsys, project, "--no-publish")[0] == 0
    before = project.lock_file("dev").read_bytes()
    code, out, err = build(capsys, project, "--no-publish")
    assert (code, started(project)) == (0, ["minilm"])
    assert "up to date" in err
    assert out.splitlines()[1].split()[:2] == ["✓", "minilm"]
    assert project.lock_file("dev").read_bytes() == before


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("damage", ["gone", "damaged", "without examples"])
def test_incomplete_local_artifact_is_rebuilt(project, capsys, damage):
    build(capsys, project, "--no-publish")
    (archive,) = project.artifacts_dir.rglob(ARCHIVE_NAME)
    if damage == "gone":
        archive.unlink()
    elif damage == "without examples":
        forget_examples(archive.with_name(MANIFEST_NAME))
    else:
        archive.write_bytes(b"x")
    assert "artifact is missing" in explained(capsys, project, "--local")
    assert build(capsys, project, "--no-publish")[0] == 0
    assert started(project) == ["minilm", "minilm"]


def forget_examples(manifest: Path) -> str:
    """Rewrite the manifest as an earlier version wrote it."""
    facts = json.loads(manifest.read_text())
    del facts["examples_sha256"]
    manifest.write_text(json.dumps(facts))
    return manifest.read_text()


@pytest.mark.usefixtures("stand_in")
def test_a_rolled_back_entry_stays_as_it_is(project, capsys):
    build(capsys, project, "--no-publish")
    edit(project.model_file("minilm"), "A man is eating food.", "Another text.")
    as_of = load_workspace(project, "dev").hashes["minilm"]
    entry = load_lock(file := project.lock_file("dev")).record.models["minilm"]["cpu"]
    back = RolledBack(instead_of="cd" * 32, as_of=as_of, by="ann", at="2026-11-24T08:30:00Z")
    restored = entry.model_copy(update={"rolled_back": back})
    replace_entries(file, [LockChange("minilm", "cpu", restored, entry)])
    before = file.read_bytes()
    note = "rolled back; `tritonstack build dev minilm` builds the new version"
    words = explained(capsys, project, "--local")
    assert words == f"minilm for cpu: {short_digest(entry.digest)} is {note}"
    code, out, err = build(capsys, project, "--no-publish")
    assert (code, started(project)) == (0, ["minilm"])
    assert f"minilm for cpu: {note}\n" in err
    assert "rolled back" in out
    assert "up to date" not in out
    assert file.read_bytes() == before
    assert build(capsys, project, "minilm", "--no-publish")[0] == 0
    assert started(project) == ["minilm", "minilm"]


@pytest.mark.usefixtures("stand_in")
def test_a_published_artifact_of_an_earlier_version_gains_its_examples(project, capsys, monkeypatch):
    """It is in the lock and in the bucket, and nothing has changed; it is rebuilt nevertheless."""
    bucket = load_workspace(project, "dev").spec.artifact_bucket
    with simulated_aws():
        cloud = use_cloud(monkeypatch)
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket=bucket)
        assert build(capsys, project, "--local")[0] == 0
        lock = project.lock_file("dev").read_bytes()
        (manifest,) = project.artifacts_dir.rglob(MANIFEST_NAME)
        key = f"models/minilm/{manifest.parent.name}/{MANIFEST_NAME}"
        before = forget_examples(manifest).replace('"p99_ms": 1.0', '"p99_ms": 7.0')
        s3.put_object(Bucket=bucket, Key=key, Body=before.encode())
        shutil.rmtree(project.artifacts_dir)

        assert build(capsys, project, "--local")[0] == 0
        assert started(project) == ["minilm", "minilm"]
        gained = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        assert gained.pop("examples_sha256")
        assert parse_manifest(json.dumps(gained), origin="") == parse_manifest(before, origin="")
        assert project.lock_file("dev").read_bytes() == lock
        shutil.rmtree(project.artifacts_dir)
        assert build(capsys, project, "--local")[0] == 0
        assert started(project) == ["minilm", "minilm"]

        project.lock_file("dev").unlink()
        assert build(capsys, project, "--local")[0] == 0
        figures = load_lock(project.lock_file("dev")).record.models["minilm"]["cpu"].figures
        assert figures.p99_ms == 7.0  # a lock tells of what lies in the bucket


@pytest.mark.usefixtures("stand_in")
def test_build_creates_a_missing_bucket(project, capsys, monkeypatch):
    bucket = load_workspace(project, "dev").spec.artifact_bucket
    deployed: list[tuple[str, list[str]]] = []
    with simulated_aws():
        cloud = use_cloud(monkeypatch)

        def deploy(_session: object, _workspace: object, _cloud: object, stack: str) -> None:
            deployed.append((stack, started(project)))

        monkeypatch.setattr(remote_build, "_deploy_if_other", deploy)
        code, _, err = build(capsys, project, "--local")
        assert (code, started(project)) == (1, [])
        assert f"bucket '{bucket}' does not exist" in err
        assert "--no-publish" in err

        def deploy_whole(*arguments: Any) -> None:
            deploy(*arguments)
            cloud.client("s3").create_bucket(Bucket=bucket)

        monkeypatch.setattr(remote_build, "_deploy_if_other", deploy_whole)
        assert build(capsys, project, "--local")[0] == 0
        assert deployed == [("tritonstack-dev-foundation", [])] * 2
        shutil.rmtree(project.artifacts_dir)
        project.lock_file("dev").unlink()
        assert build(capsys, project, "--local")[0] == 0
        assert len(deployed) == 2


def test_explain_before_the_first_build(project, capsys):
    there = "in CodeBuild, project tritonstack-dev-build-cpu"
    assert f"to build {there}: " in explained(capsys, project)

    assert "on this machine" in explained(capsys, project, "--local")
    edit(project.environment_file("dev"), "endpoints:", "builds: {enabled: false}\nendpoints:")
    assert "on this machine" in explained(capsys, project)


def test_exposure_is_allowed_for_the_builds_of_one_command(project, capsys, monkeypatch, tmp_path):
    log = tmp_path / "seen"

    def noting(*arguments: Any) -> list[str]:
        script = f'echo "exposed: ${{{EXPOSE}-no}}" >> {log}; exec "$@"'
        return ["sh", "-c", script, "sh", *stand_in_command(*arguments)]

    monkeypatch.setattr(local_build, "build_command", noting)
    assert build(capsys, project, "--no-publish", "--expose")[0] == 0
    serve(project, "other")
    assert build(capsys, project, "--no-publish")[0] == 0
    assert log.read_text().splitlines() == ["exposed: 1", "exposed: no"]


@pytest.mark.usefixtures("stand_in")
def test_failed_build_keeps_the_others(project, capsys):
    serve(project, "broken", "crashing")
    code, _, err = build(capsys, project, "--no-publish", "--jobs", "3")
    assert code == 1
    assert sorted(started(project)) == ["broken", "crashing", "minilm"]
    assert set(load_lock(project.lock_file("dev")).record.models) == {"minilm"}
    assert "cpu: error[TS312]" in err
    assert "MemoryError: no room" in err
    assert "error[TS322]: 2 builds" in err
    assert next(line.strip() for line in err.splitlines() if "help: " in line) == "help: mend it"
    crash = err[err.index("\n\ncrashing for cpu: ") :]
    assert "help: " in crash
    log = project.state_dir / "logs/builds/crashing-cpu.log"
    assert re.search(r"\n  log: \S*/logs/builds/crashing-cpu\.log\n", crash)
    assert "MemoryError: no room" in log.read_text()
    assert "✗ building broken" in err
    assert "✓ building minilm" in err


COMMAND_LINE = """
import signal
from tritonstack.cli import main
from tritonstack.operate.build import local_build
from tests.cli.builds.stand_in_job import stand_in_command
local_build.build_command = stand_in_command
signal.signal(signal.SIGINT, signal.default_int_handler)
main.main()
"""


def command_line(project: Project) -> subprocess.Popen[str]:
    """Run a build of everything that the environment serves, two at once."""
    arguments = ["--project", str(project.root), "build", "dev", "--no-publish", "--jobs", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND_LINE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_ends_local_builds_and_locks_finished_ones(project, capsys, number):
    serve(project, "endless")
    process = command_line(project)
    assert process.stdout is not None
    assert any("building minilm" in line for line in process.stdout)
    wait_for(lambda: "endless" in started(project) and (project.root / "minilm-told.txt").exists())
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 1, output
    assert output.count("interrupted; unfinished builds") == 1
    assert "Traceback" not in output
    assert (project.root / "ended.txt").read_text() == "told to"
    assert set(load_lock(project.lock_file("dev")).record.models) == {"minilm"}
    words = explained(capsys, project, "--local").splitlines()
    assert "on this machine" in words[0]
    assert "up to date" in words[1]


def test_a_second_ctrl_c_does_not_wait_and_leaves_no_child(project):
    serve(project, "stubborn")
    process = command_line(project)
    mark = project.root / "stubborn.txt"
    wait_for(lambda: mark.is_file() and mark.read_text())
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in output) == (1, False), output
    assert not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.usefixtures("stand_in")
def test_a_build_that_is_killed_is_reported_with_its_name(project, capsys):
    serve(project, "killed")
    code, _, err = build(capsys, project, "--no-publish")
    assert code == 1
    assert "error[TS616]: " in err
    assert "'source' was killed" in err
    assert "once (--jobs 1)" in err
    assert set(load_lock(project.lock_file("dev")).record.models) == {"minilm"}


@pytest.mark.parametrize(("gib", "cores", "most"), [(1, 8, 1), (13, 8, 2), (100, 8, 4), (100, 1, 1)])
def test_concurrency_is_limited_by_memory_and_processors(monkeypatch, gib, cores, most):
    monkeypatch.setattr(local_build, "available_memory", lambda: gib * 2**30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert local_build.most_at_once() == most


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)

"""Reports on projects: from files alone, and what they say about data that is not there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from tests.git import Repository
from tests.manifests import manifest, measured
from tests.projects import edit, write_project
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.files.records.lock_writing import lock_text
from tritonstack.files.records.locks import Built, Lock, entry_of
from tritonstack.operate.report.live_state import read_live_state
from tritonstack.operate.report.report import ReportOptions, collect, report
from tritonstack.operate.report.report_data import MissingData, ReportData
from tritonstack.operate.shared.events import new_event, record_event
from tritonstack.operate.shared.session import Session

OFFLINE = ReportOptions(offline=True)
PROMOTED = """\
promotion: {source: dev, soaked_hours: 24, min_cosine: 0.999}
tags: {owner: search team}
prices: {ml.c7i.xlarge: 0.5}
"""


def _lock(project: Project, environment: str, digest: str, **figures: float) -> None:
    built = manifest("minilm", digest=digest * 32, **measured(**figures))
    entry = entry_of(built, {"spec": digest * 6}).model_copy(
        update={"built": Built(by="ann", at="2026-11-22T08:00:00Z", commit="1" * 40)}
    )
    lock = Lock().with_entry("minilm", "cpu", entry)
    project.lock_file(environment).write_text(lock_text(lock))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Two environments; prod serves an older artifact than dev."""
    project = write_project(tmp_path)
    dev = project.environment_file("dev").read_text()
    prod = dev.replace("name: dev", "name: prod").replace("111111111111", "222222222222")
    project.environment_file("prod").write_text(prod + PROMOTED)
    repository = Repository(tmp_path)
    for digest in ("ab", "cd"):
        _lock(project, "dev", digest, p99=4.0 if digest == "cd" else 5.0)
        if digest == "ab":
            _lock(project, "prod", digest, p99=5.0)
        repository.commit(f"build {digest}")
    return project


STATE_OF_DEV, STATE_OF_PROD = "deployed state of dev", "deployed state of prod"
GATES = "gates from dev to prod"


def gaps_of(report: ReportData) -> dict[str, MissingData]:
    return {gap.subject: gap for gap in report.missing}


def test_files_alone_give_environments_differences_costs_and_history(project: Project) -> None:
    report = collect(Session(project), OFFLINE)
    dev, prod = report.environments
    assert (dev.name, prod.name, prod.owner) == ("dev", "prod", "search team")
    (locked,) = prod.models["minilm"]
    assert locked.digest == "ab" * 32
    assert [part.partition(" ")[0] for part in locked.differences] == ["model.yaml", "p99"]
    assert dev.models["minilm"][0].differences == ()
    assert prod.gates is not None
    assert prod.gates.required == ("deployed for 24 h", "verified", "cosine at least 0.999")
    assert prod.gates.results is None
    (cost,) = prod.costs
    assert (cost.least, cost.most, cost.now) == (0.5 * 730, 2 * 0.5 * 730, None)
    assert dev.costs[0].least is None
    # Both locks record one build of the artifact that both environments run.
    builds = {(entry.kind, entry.environment, entry.digest[:2]) for _, entry in report.timeline}
    assert builds == {("built", "dev", "ab"), ("built", "dev", "cd")}
    times = [entry.at for _, entry in report.timeline]
    assert times == sorted(times, reverse=True)
    # Missing data is named with what produces it.
    gaps = gaps_of(report)
    assert "--offline" in gaps[STATE_OF_DEV].remedy
    assert "tritonstack build" in gaps["measurements of minilm"].remedy


def test_an_unreachable_account_is_missing_data(project: Project, account: str) -> None:
    """The credentials belong to another account."""
    report = collect(Session(project), ReportOptions())
    assert account in gaps_of(report)[STATE_OF_DEV].reason
    assert gaps_of(report)[STATE_OF_PROD].remedy
    assert all(environment.status is None for environment in report.environments)


def test_a_readable_account_gives_state_and_gates(project: Project, account: str) -> None:
    for name, former in (("dev", "111111111111"), ("prod", "222222222222")):
        edit(project.environment_file(name), former, account)
    report = collect(Session(project), ReportOptions(changes=False))
    dev, prod = report.environments
    assert dev.status is not None
    assert [endpoint.status for endpoint in dev.status.endpoints] == ["not deployed"]
    assert prod.gates is not None
    assert (prod.gates.results is not None) != (GATES in gaps_of(report))


def test_gates_are_evaluated_only_if_the_report_has_read_their_source(project: Project, account: str) -> None:
    """The role of a pull request may read one environment, and is not used for another one."""
    edit(project.environment_file("prod"), "222222222222", account)
    for names in (("prod",), ()):  # dev is not covered, or not readable
        report = collect(Session(project), ReportOptions(names, changes=False))
        prod = report.environments[-1]
        assert prod.status is not None
        assert prod.gates is not None
        assert prod.gates.results is None
        assert prod.gates.reason.startswith("dev ")
        assert "prod --dry-run" in gaps_of(report)[GATES].remedy


def test_an_invalid_environment_does_not_stop_the_others(project: Project) -> None:
    edit(project.environment_file("dev"), "eu-west-1", "nowhere")
    dev, prod = collect(Session(project), OFFLINE).environments
    assert "nowhere" in dev.invalid
    assert prod.models["minilm"][0].digest == "ab" * 32


@pytest.mark.parametrize(
    "content", [b"<<<<<<< HEAD\nmodels: {}\n=======\n", b"models: {\xff}\n", b"models: ["]
)
def test_a_broken_lock_is_missing_data_of_its_environment(project: Project, content: bytes) -> None:
    project.lock_file("dev").write_bytes(content)
    report = collect(Session(project), OFFLINE)
    dev, prod = report.environments
    assert "dev.lock.yaml" in dev.invalid
    assert prod.models["minilm"][0].digest == "ab" * 32
    assert sum(" dev" in subject for subject in gaps_of(report)) >= 3
    assert [model.digest for model in report.models] == ["ab" * 32]
    assert {(entry.kind, entry.environment) for _, entry in report.timeline} == {("built", "prod")}


def test_days_of_a_window_are_in_the_gates(project: Project) -> None:
    window = 'windows: [{days: [MON, FRI], start: "09:00", end: "16:00"}]'
    edit(project.environment_file("prod"), "soaked_hours: 24,", f"soaked_hours: 24, {window},")
    prod = collect(Session(project), OFFLINE).environments[1]
    assert prod.gates is not None
    assert prod.gates.required[-1] == "MON, FRI 09:00–16:00 UTC"


def test_an_unwritable_file_is_found_before_the_work(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[object] = []
    monkeypatch.setattr("tritonstack.operate.report.report.collect", lambda *call: reads.append(call))
    with pytest.raises(UsageError, match="folder"):
        report(Session(project), tmp_path / "missing" / "report.html", OFFLINE)
    assert reads == []


def test_an_unreadable_event_keeps_the_status(project: Project, account: str) -> None:
    edit(project.environment_file("dev"), "111111111111", account)
    bucket = Session(project).workspace("dev").spec.artifact_bucket
    s3 = boto3.client("s3", region_name="eu-west-1")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    s3.put_object(Bucket=bucket, Key=f"events/{at}-promoted-0a0a0a0a.json", Body=b"{")
    report = collect(Session(project), ReportOptions(("dev",), changes=False))
    assert report.environments[0].status is not None
    assert "valid event" in gaps_of(report)["events of dev"].reason
    assert STATE_OF_DEV not in gaps_of(report)
    assert "valid event" in report.models[0].unread["dev"]


def test_an_event_is_read_once(project: Project, account: str) -> None:
    edit(project.environment_file("dev"), "111111111111", account)
    workspace = Session(project).workspace("dev")
    s3 = boto3.client("s3", region_name="eu-west-1")
    bucket = workspace.spec.artifact_bucket
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    cloud, cache = Session(project).cloud(workspace.spec), {}
    for note in ("a", "b"):
        record_event(cloud, bucket, new_event("deployed", workspace, endpoints=["search"], note=note))
        first = read_live_state(Session(project), workspace, cache)
        assert len(first.events) == len(cache)
        for key in cache:  # the listing still names it
            s3.put_object(Bucket=bucket, Key=key.removeprefix(f"s3://{bucket}/"), Body=b"{")
    again = read_live_state(Session(project), workspace, cache)
    assert [event.note for event in again.events] == ["a", "b"]
    assert again.missing == ()
    assert read_live_state(Session(project), workspace, {}).events_unread

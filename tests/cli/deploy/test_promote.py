"""`tritonstack promote` between two accounts: what it copies, what it rejects, and what a kill leaves."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import botocore.client
import pytest

from tests.git import Repository
from tests.operate.two_accounts import PROMOTION, two_accounts
from tests.projects import edit
from tritonstack.base.naming import artifact_prefix
from tritonstack.cli.main import run
from tritonstack.operate.artifacts import transfers as uploading
from tritonstack.operate.promote import promote as locking
from tritonstack.operate.shared.events import record_event

CONTENT = bytes(range(256)) * 40


class Killed(BaseException):
    """Ends a run at once, wherever it is."""


@pytest.fixture
def site(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTOR", "ann")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.chdir(project.root)
    with two_accounts(project) as site:
        for name, value in site.prod.variables.items():
            monkeypatch.setenv(name, value)
        yield site


def promote(*arguments: str, expected: int = 0) -> None:
    assert run(["promote", "dev", "prod", *arguments]) == expected


def test_artifact_is_promoted_between_accounts(site, capsys):
    built = site.build("minilm", CONTENT)
    assert run(["--json", "promote", "dev", "prod"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert site.held(built) == CONTENT
    entry, source = site.entry(), site.entry(environment="dev")
    assert (entry.promoted.source, entry.promoted.by) == ("dev", "ann")
    assert entry.figures == source.figures
    (event,) = site.promotions()
    assert (event.at, event.by, event.note) == (entry.promoted.at, "ann", "from dev")
    assert event.endpoints == ("search",)
    assert document["changed"] is True
    assert document["promoted"][0]["digest"] == built.digest
    assert "S3's checksum" in document["copied"][0]["summary"]


def test_dry_run_reports_everything_and_changes_nothing(site, capsys):
    site.build("minilm", CONTENT)
    assert run(["--json", "promote", "dev", "prod", "--dry-run"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bytes"] == len(CONTENT)
    assert "+      digest: " in document["lock_diff"]
    assert "+        source: dev" in document["lock_diff"]
    assert not site.project.lock_file("prod").exists()
    assert "Contents" not in site.prod.client("s3").list_objects_v2(Bucket=site.bucket("prod"))


MEASURED = ("min_cosine", "max_latency_p99_ms")


def test_dry_run_shows_each_gate_and_hides_the_raw_diff(site, capsys):
    gates = "promotion: {source: dev, verified: false, min_cosine: 0.9, max_latency_p99_ms: 5}\n"
    edit(site.project.environment_file("prod"), PROMOTION, gates)
    built = site.build("minilm", CONTENT)
    promote("--dry-run", expected=1)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    passed, failed = ["✓", "min_cosine"], ["✗", "max_latency_p99_ms"]
    assert [row[:2] for row in rows if row[:1] in (["✓"], ["✗"]) and row[1] in MEASURED] == [passed, failed]
    assert not any(row[:2] == ["+", "digest:"] for row in rows)
    promote("--dry-run", "--full", expected=1)
    assert f"digest: {built.digest}" in capsys.readouterr().out
    promote("--dry-run", "--markdown", "--override-gate", "max_latency_p99_ms=INC-7 | 1")
    text = capsys.readouterr().out
    assert "| min_cosine | minilm" in text
    assert text.index("overridden: INC-7 \\| 1") < text.index("<details>") < text.index(built.digest)


@pytest.mark.parametrize("damage", ["bytes", "size", "manifest", "missing"])
def test_bad_artifact_is_rejected(site, capsys, damage):
    built = site.build("minilm", CONTENT)
    s3, prefix = site.dev.client("s3"), artifact_prefix("minilm", built.digest)
    place = {"Bucket": site.bucket("dev"), "Key": f"{prefix}/model.tar.gz"}
    note = {"sha256": built.digest}
    if damage == "bytes":
        s3.put_object(**place, Body=CONTENT[:-1] + b"!", Metadata=note)
    elif damage == "size":
        s3.put_object(**place, Body=CONTENT[:-1], Metadata=note)
    elif damage == "missing":
        s3.delete_object(**place)
    else:
        wrong = built.model_copy(update={"unpacked_bytes": 1}).to_json().encode()
        s3.put_object(**place | {"Key": f"{prefix}/manifest.json"}, Body=wrong)
    promote(expected=1)
    err = capsys.readouterr().err
    assert "checksum mismatch for" in err or "lock expects" in err or "does not match" in err
    assert not site.project.lock_file("prod").exists()
    assert "Contents" not in site.prod.client("s3").list_objects_v2(Bucket=site.bucket("prod"))
    # A fixed source is promoted, whatever the failed run left behind.
    site.build("minilm", CONTENT)
    promote()
    assert site.held(built) == CONTENT


def test_failed_gates_are_reported_together(site, capsys):
    gates = "promotion: {source: dev, soaked_hours: 2, min_cosine: 0.99999, max_latency_p99_ms: 5}\n"
    edit(site.project.environment_file("prod"), PROMOTION, gates)
    built = site.build("minilm", CONTENT)
    site.happened("deployed", built, "2026-11-20T08:30:00Z")
    site.happened("refuted", built, "2026-11-20T09:30:00Z", note="answers differ")
    promote(expected=1)
    err = capsys.readouterr().err
    for gate in ("verified", "min_cosine", "max_latency_p99_ms"):
        assert f"gate {gate} failed: minilm" in err
    assert "ann (answers differ)" in err
    assert site.held(built) is None
    assert not site.project.lock_file("prod").exists()
    promote("--dry-run", expected=1)


def test_gate_override_records_its_reason(site):
    gates = "promotion: {source: dev, max_latency_p99_ms: 5, verified: false}\n"
    edit(site.project.environment_file("prod"), PROMOTION, gates)
    site.build("minilm", CONTENT)
    promote("--override-gate", "max_latency_p99_ms=", expected=2)
    promote("--override-gate", "latency=now", expected=2)
    promote("--override-gate", "max_latency_p99_ms=search is down, INC-7")
    entry = site.entry()
    assert "max_latency_p99_ms" in entry.promoted.note
    (event,) = site.promotions()
    assert event.note == f"from dev; {entry.promoted.note}"


def calls_of(monkeypatch: pytest.MonkeyPatch, *, kill_at: int | None = None) -> list[str]:
    """Record every AWS call, and end the run right after the call with the given number. Reads of old events
    do not count: their number grows with every promotion.
    """
    calls: list[str] = []
    real = botocore.client.BaseClient._make_api_call

    def call(self: Any, name: str, parameters: Any) -> Any:
        if name == "GetObject" and parameters["Key"].startswith("events/"):
            return real(self, name, parameters)
        calls.append(name)
        number = len(calls)
        try:
            return real(self, name, parameters)
        finally:
            if number == kill_at:
                raise Killed

    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)
    return calls


@pytest.mark.soak
def test_deploy_resumes_after_a_kill_at_every_call(site, monkeypatch):
    """One project for all, so that every run meets the leftovers of all killed ones."""
    number, finished = 0, False
    while not finished:
        number += 1
        content = CONTENT[number:] + CONTENT[:number]
        built = site.build("minilm", content)
        with monkeypatch.context() as patched:
            calls = calls_of(patched, kill_at=number)
            _survives()  # boto3's threads may swallow the kill
        finished = len(calls) < number
        held = site.held(built)
        assert held in (None, content)
        entry = site.entry()
        if entry is not None and entry.digest == built.digest:
            assert held == content
        promote()
        entry = site.entry()
        assert entry.digest == built.digest
        digests = [event.artifacts[0].digest for event in site.promotions()]
        assert digests.count(built.digest) == 1
        assert site.promotions()[-1].at == entry.promoted.at
    assert number > 20
    assert not list((site.project.artifacts_dir / ".fetching").rglob("*.gz"))


def _survives() -> bool:
    """Return whether a run finishes; a worker thread may also report the kill."""
    try:
        return run(["promote", "dev", "prod"]) == 0
    except Killed:
        return False


def test_large_archives_are_uploaded_in_parts_with_checksums(site, monkeypatch, capsys):
    monkeypatch.setattr(uploading, "PART_BYTES", 5 * 1024**2)
    content = CONTENT * 600  # S3's smallest part is 5 MiB
    built = site.build("minilm", content)
    with monkeypatch.context() as patched:
        calls = calls_of(patched)
        promote()
    assert calls.count("UploadPart") == 2
    assert "verified: S3's checksum" in capsys.readouterr().err
    assert site.held(built) == content


def test_a_damaged_archive_in_the_target_is_replaced(site):
    built = site.build("minilm", CONTENT)
    place = {"Bucket": site.bucket("prod"), "Key": f"{artifact_prefix('minilm', built.digest)}/model.tar.gz"}
    note = {"sha256": built.digest}
    site.prod.client("s3").put_object(**place, Body=CONTENT[::-1], Metadata=note, ChecksumAlgorithm="SHA256")
    promote()
    assert site.held(built) == CONTENT


def test_a_killed_promotion_is_recorded_once_by_the_next_run(site, monkeypatch):
    site.build("minilm", CONTENT)
    s3, bucket = site.prod.client("s3"), site.bucket("prod")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(locking, "record_event", killed)
        assert not _survives()
    written = site.project.lock_file("prod").read_text()
    assert site.promotions() == []
    promote()
    assert site.project.lock_file("prod").read_text() == written
    (event,) = site.promotions()
    record_event(site.prod, bucket, event)
    assert len(s3.list_object_versions(Bucket=bucket, Prefix=event.key)["Versions"]) == 1
    entry = site.entry()
    assert (event.at, event.by) == (entry.promoted.at, entry.promoted.by)


@pytest.mark.parametrize("content", [CONTENT, CONTENT[::-1]], ids=["same artifact", "another artifact"])
def test_git_arbitrates_promotions_of_two_checkouts(site, tmp_path_factory, monkeypatch, content):
    first = site.build("minilm", CONTENT)
    repository = Repository(site.project.root)
    repository.commit("dev")
    other = site.second_checkout(tmp_path_factory.mktemp("other"))
    second = other.build("minilm", content)
    promote()
    repository.commit("promoted by ann")
    monkeypatch.chdir(other.project.root)
    monkeypatch.setenv("GITHUB_ACTOR", "bob")
    promote()
    assert (site.held(first), site.held(second)) == (CONTENT, content)
    assert [event.by for event in site.promotions()] == ["ann", "bob"]
    lock = site.project.lock_file("prod")
    repository.git("switch", "--quiet", "--create", "bob", "HEAD~1")
    lock.write_text(other.project.lock_file("prod").read_text())
    repository.commit("promoted by bob")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "main")
    assert repository.git("diff", "--name-only", "--diff-filter=U") == "environments/prod.lock.yaml"


def test_concurrently_changed_lock_is_kept(site, monkeypatch, capsys):
    site.build("minilm", CONTENT)
    promote()
    built = site.build("minilm", CONTENT[::-1])
    real = locking.unmark_superseded
    lock = site.project.lock_file("prod")

    def meanwhile(*arguments: Any) -> Any:
        edit(lock, "by: ann", "by: eve")
        monkeypatch.setattr(locking, "unmark_superseded", real)
        return real(*arguments)

    monkeypatch.setattr(locking, "unmark_superseded", meanwhile)
    promote(expected=1)
    assert "another minilm" in capsys.readouterr().err
    assert built.digest not in lock.read_text()

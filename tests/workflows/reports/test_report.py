"""Reports on projects: from files alone, and what they say about data that is not there."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.git import Repository
from tests.manifests import manifest, measured
from tests.projects import edit, write_project
from tritonstack.base.errors import UsageError
from tritonstack.base.paths import Project
from tritonstack.records.lock_writing import lock_text
from tritonstack.records.locks import Built, Lock, entry_of
from tritonstack.workflows.reports.report import ReportOptions, collect, default_file, report
from tritonstack.workflows.session import Session

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
    lock = Lock().with_entry("minilm", "cpu", entry.sealed((environment, "minilm", "cpu")))
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


def test_files_alone_give_environments_differences_costs_and_history(project: Project) -> None:
    found = collect(Session(project), OFFLINE)
    dev, prod = found.environments
    assert (dev.name, prod.name, prod.owner) == ("dev", "prod", "search team")
    (locked,) = prod.models["minilm"]
    assert locked.digest == "ab" * 32
    assert locked.differences == ("model.yaml has changed", "p99 5.0 ms here, 4.0 ms there")
    assert dev.models["minilm"][0].differences == ()
    assert prod.gates is not None
    assert prod.gates.required == ("deployed for 24 h", "verified", "cosine at least 0.999")
    assert prod.gates.failed is None
    (cost,) = prod.costs
    assert (cost.least, cost.most, cost.now) == (0.5 * 730, 2 * 0.5 * 730, None)
    assert dev.costs[0].least is None
    # Both locks record one build of the artifact that both environments run.
    assert {(one.kind, one.environment, one.digest[:2]) for one in found.timeline} == {
        ("built", "dev", "ab"),
        ("built", "dev", "cd"),
    }
    assert [one.at for one in found.timeline] == sorted((one.at for one in found.timeline), reverse=True)


def test_missing_data_is_named_with_what_produces_it(project: Project) -> None:
    missing = {one.subject: one for one in collect(Session(project), OFFLINE).missing}
    assert missing["deployed state of dev"].remedy == "omit --offline"
    assert "tritonstack build" in missing["measurements of minilm"].remedy


def test_an_unreachable_account_is_missing_data(project: Project, account: str) -> None:
    """The credentials belong to another account."""
    found = collect(Session(project), ReportOptions())
    missing = {one.subject: one for one in found.missing}
    assert account in missing["deployed state of dev"].reason
    assert missing["deployed state of prod"].remedy
    assert all(one.status is None for one in found.environments)


def test_a_readable_account_gives_state_and_gates(project: Project, account: str) -> None:
    for name, former in (("dev", "111111111111"), ("prod", "222222222222")):
        edit(project.environment_file(name), former, account)
    found = collect(Session(project), ReportOptions(changes=False))
    dev, prod = found.environments
    assert dev.status is not None
    assert [one.status for one in dev.status.endpoints] == ["not deployed"]
    assert prod.gates is not None
    missing = {one.subject: one for one in found.missing}
    assert (prod.gates.failed is not None) != ("gates from dev to prod" in missing)


def test_gates_are_evaluated_only_if_the_report_has_read_their_source(project: Project, account: str) -> None:
    """The role of a pull request may read one environment, and is not used for another one."""
    edit(project.environment_file("prod"), "222222222222", account)
    for names in (("prod",), ()):  # dev is not covered, or not readable
        found = collect(Session(project), ReportOptions(names, changes=False))
        prod = found.environments[-1]
        assert prod.status is not None
        assert prod.gates is not None
        assert (prod.gates.failed, prod.gates.reason) == (None, "dev was not read")
        (gap,) = [one for one in found.missing if one.subject == "gates from dev to prod"]
        assert "promote dev prod --dry-run" in gap.remedy


def test_an_invalid_environment_does_not_stop_the_others(project: Project) -> None:
    edit(project.environment_file("dev"), "eu-west-1", "nowhere")
    dev, prod = collect(Session(project), OFFLINE).environments
    assert "nowhere" in dev.invalid
    assert prod.models["minilm"][0].digest == "ab" * 32


def test_a_local_artifact_gives_measurements(project: Project) -> None:
    built = manifest("minilm", digest="cd" * 32, **measured())
    folder = project.artifacts_dir / "models" / "minilm" / built.digest
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(built.to_json())
    with tarfile.open(folder / "model.tar.gz", "w:gz"):
        pass
    (model,) = collect(Session(project), OFFLINE).models
    assert model.manifest == built


def test_the_result_names_file_and_size(project: Project, tmp_path: Path) -> None:
    session = Session(project)
    written = report(session, default_file(session), OFFLINE)
    assert written.file.stat().st_size == written.size_bytes
    assert written.file.is_relative_to(project.state_dir)
    data = json.loads(json.dumps(written.to_json()))
    assert data["report"]["environments"] == ["dev", "prod"]


def test_unknown_environments_and_folders_are_usage_errors(project: Project, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown environment 'prd'") as error:
        collect(Session(project), ReportOptions(("prd",), offline=True))
    assert error.value.remedy == "did you mean 'prod'?"
    with pytest.raises(UsageError, match="its folder does not exist"):
        report(Session(project), tmp_path / "missing" / "report.html", OFFLINE)

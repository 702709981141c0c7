"""Files that contradict each other, and what an endpoint runs."""

from __future__ import annotations

import pytest

from tests.files.one_endpoint import coded, names
from tests.projects import edit
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.paths import Project, find_project
from tritonstack.files.checks.compatibility import unbuilt
from tritonstack.files.loading import ProjectFiles, load_models, load_workspace
from tritonstack.files.records.lock_writing import write_lock
from tritonstack.files.records.locks import Lock, LockedArtifact
from tritonstack.files.sources.model_hashes import model_hash
from tritonstack.files.validation import validate_project

DIGEST = "ab" * 32


def lock_artifact(project: Project, *, target: str = "cpu", spec_hash: str | None = None) -> None:
    artifact = LockedArtifact(
        digest=DIGEST,
        spec_hash=spec_hash or model_hash("minilm", load_models(project, "minilm")),
        archive_bytes=10,
        unpacked_bytes=20,
    )
    write_lock(project.lock_file("dev"), Lock(models={"minilm": {target: artifact}}))


def test_a_valid_project_has_no_violations(project: Project) -> None:
    assert validate_project(ProjectFiles(project)) == []


def test_an_unknown_environment_suggests_the_nearest(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        load_workspace(project, "devv")
    assert (caught.value.code, caught.value.exit_code) == ("TS903", 2)
    assert "'dev'?" in str(caught.value.remedy)


def test_an_endpoint_of_a_model_that_does_not_exist(project: Project) -> None:
    edit(project.environment_file("dev"), "model: minilm", "model: minilmm")
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(project, "dev")
    (violation,) = caught.value.violations
    assert (violation.line, *coded(violation)) == (8, "endpoints.search.model", "TS201")
    assert names(violation, "'minilmm' 'minilm'?")


def test_violations_of_several_files_are_reported_together(project: Project) -> None:
    edit(project.environment_file("dev"), "name: dev", "name: prod")
    edit(project.model_file("minilm"), "kind: text-embedding", "kind: text-embeding")
    files = {violation.file.name for violation in validate_project(ProjectFiles(project))}
    assert files == {"dev.yaml", "model.yaml"}


@pytest.mark.parametrize("target", ["cpu", "cpu-py312"])
def test_an_endpoint_finds_the_artifact_of_its_target(project: Project, target: str) -> None:
    lock_artifact(project, target=target)
    workspace = load_workspace(project, "dev")
    artifact = workspace.artifact_for("minilm", workspace.spec.endpoints["search"].instance)
    assert artifact is not None
    assert artifact.digest == DIGEST
    assert unbuilt(workspace, "search") == []


@pytest.mark.parametrize("target", ["cpu-py310", "sm86-25.04"])
def test_artifact_of_another_target_is_not_used(project: Project, target: str) -> None:
    lock_artifact(project, target=target)
    assert unbuilt(load_workspace(project, "dev"), "search")


def test_artifact_of_a_changed_model_is_outdated(project: Project) -> None:
    lock_artifact(project)
    edit(project.model_file("minilm"), "test_inputs: [", "test_inputs: [Another text., ")
    (violation,) = unbuilt(load_workspace(project, "dev"), "search")
    assert (violation.file, *coded(violation)) == (project.lock_file("dev"), "models.minilm", "TS402")


def test_a_stale_model_of_two_endpoints_is_reported_once(project: Project) -> None:
    lock_artifact(project)
    edit(project.model_file("minilm"), "test_inputs: [", "test_inputs: [Another text., ")
    file = project.environment_file("dev")
    text = file.read_text()
    file.write_text(text + text[text.index("  search:") :].replace("search", "find"))
    assert len(unbuilt(load_workspace(project, "dev"))) == 1


def test_a_damaged_lock_is_rejected_with_its_line(project: Project) -> None:
    lock_artifact(project)
    edit(project.lock_file("dev"), DIGEST, "abc")
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(project, "dev")
    (violation,) = caught.value.violations
    assert (violation.line, *coded(violation)) == (6, "models.minilm.cpu.digest", "TS111")


def test_a_folder_outside_any_project_is_rejected(project: Project) -> None:
    with pytest.raises(UsageError) as caught:
        find_project(project.root.parent)
    assert str(project.root.parent) in caught.value.message


def test_two_environments_whose_endpoints_would_have_one_name(project: Project) -> None:
    text = project.environment_file("dev").read_text()
    beside = text.replace("name: dev", "name: dev-eu").replace("  search:", "  x:")
    project.environment_file("dev-eu").write_text(beside)
    edit(project.environment_file("dev"), "  search:", "  eu-x:")
    (violation,) = validate_project(ProjectFiles(project))
    assert (violation.file, violation.code) == (project.environment_file("dev-eu"), "TS204")
    assert names(violation, "'tritonstack-dev-eu-x'")


def test_the_same_names_in_another_account_are_fine(project: Project) -> None:
    text = project.environment_file("dev").read_text()
    beside = text.replace("name: dev", "name: dev-eu").replace("  search:", "  x:")
    project.environment_file("dev-eu").write_text(beside.replace("111111111111", "222222222222"))
    edit(project.environment_file("dev"), "  search:", "  eu-x:")
    assert validate_project(ProjectFiles(project)) == []


@pytest.mark.parametrize(
    ("source", "words", "code"),
    [
        ("devv", "'devv' 'dev'?", "TS201"),
        ("nope", "'nope' available: dev", "TS201"),
        ("prod", "'prod' dev", "TS418"),
    ],
)
def test_a_promotion_source_is_another_environment(
    project: Project, source: str, words: str, code: str
) -> None:
    text = project.environment_file("dev").read_text().replace("name: dev", "name: prod")
    project.environment_file("prod").write_text(f"{text}promotion: {{source: {source}}}\n")
    (violation,) = validate_project(ProjectFiles(project))
    assert (violation.file.name, violation.line) == ("prod.yaml", 10)
    assert (coded(violation), names(violation, words)) == (("promotion.source", code), True)


@pytest.mark.parametrize(
    ("endpoint", "options", "words"),
    [
        ("serch", "", "'serch' 'search'?"),
        ("chat", "", "'chat' prod: search"),
        ("search", "    asynchronous: {}\n", "asynchronous"),
    ],
)
def test_performance_objective_is_of_an_endpoint_with_latency(
    project: Project, endpoint: str, options: str, words: str
) -> None:
    text = project.environment_file("dev").read_text().replace("name: dev", "name: prod") + options
    objective = f"{endpoint}: {{rate_per_instance: 40, p99_ms: 250}}"
    text += f"promotion: {{source: dev, performance: {{{objective}}}}}\n"
    project.environment_file("prod").write_text(text)
    (violation,) = validate_project(ProjectFiles(project))
    assert coded(violation) == (f"promotion.performance.{endpoint}", "TS418")
    assert names(violation, words)

"""Templates of environments: their instances, and their errors with file and line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.projects import edit
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.paths import Project
from tritonstack.files.environment.tags import (
    has_expired,
    moment_text,
    parse_lifetime,
    parse_moment,
    tag_text,
)
from tritonstack.files.environment.templates import Instance
from tritonstack.files.loading import ProjectFiles, load_workspace, sample_instance
from tritonstack.files.project.names import environment_names, template_names
from tritonstack.files.project.workspace import Workspace
from tritonstack.files.validation import validate_project

TEMPLATE = """\
template:
  locks: dev
  purpose: preview of a pull request
  longest: 72h
  parameters:
    machine: ml.c7i.large
    most: 2
    isolated: true
    share: 0.5
name: ${name}
account: "111111111111"
region: eu-west-1
triton_release: "25.04"
removal: destroy
tags: {team: search, what: "${name} on ${machine}"}
endpoints:
  search:
    kind: ensemble
    model: minilm
    instance_type: ${machine}
    scaling: {min_instances: 1, max_instances: "${most}"}
    network_isolation: ${isolated}
"""


@pytest.fixture
def templated(project: Project) -> Project:
    project.template_file("preview").write_text(TEMPLATE)
    return project


def instance(project: Project, **parameters: bool | int | float | str) -> Workspace:
    asked = Instance("preview", "pr-1", "somebody", "2030-01-02T03:04:05Z", parameters)
    return ProjectFiles(project).instance(asked)


def test_a_template_is_not_an_environment(templated: Project) -> None:
    assert environment_names(templated) == ["dev"]
    assert template_names(templated) == ["preview"]
    for call, name, remedy in (
        (lambda name: load_workspace(templated, name), "preview", "--name"),
        (ProjectFiles(templated).template, "dev", ".template.yaml"),
        (ProjectFiles(templated).template, "previw", "'preview'?"),
    ):
        with pytest.raises(UsageError, match=f"'{name}'") as caught:
            call(name)
        assert remedy in str(caught.value.remedy)


def test_instance_is_a_complete_environment(templated: Project) -> None:
    workspace = instance(templated, most=5, isolated=False)
    spec = workspace.spec
    assert (spec.name, spec.base, spec.removal) == ("pr-1", "tritonstack-pr-1", "destroy")
    endpoint = spec.endpoints["search"]
    assert (endpoint.scaling.max_instances, endpoint.network_isolation) == (5, False)
    assert dict(spec.tags) == {
        "team": "search",
        "what": "pr-1 on ml.c7i.large",
        "owner": "somebody",
        "purpose": "preview of a pull request",
        "expires": "2030-01-02T03:04:05Z",
    }
    assert not spec.is_protected


def test_instance_runs_the_lock_of_the_environment_in_its_template(templated: Project) -> None:
    workspace = instance(templated)
    assert workspace.lock.file == templated.lock_file("dev")
    assert workspace.lock_owner == "dev"
    assert workspace.cli_arguments == "preview --name pr-1"
    assert load_workspace(templated, "dev").cli_arguments == "dev"


def test_a_synth_with_the_same_context_gives_the_same_instance(templated: Project) -> None:
    workspace = instance(templated, most=5, isolated=False, share=0.25)
    context = dict(workspace.context)
    assert context["env"] == "preview"
    template = ProjectFiles(templated).template("preview")
    told = {key: context[key] for key in template.head.parameters if key in context}
    again = Instance(
        "preview", context["name"], context["owner"], context["expires"], template.parameters(told)
    )
    assert again == workspace.instance


@pytest.mark.parametrize(
    ("given", "message", "remedy"),
    [
        ({"mots": "3"}, "'mots'", "'most'?"),
        ({"x": "3"}, "'x'", "machine, most, isolated, share"),
        ({"most": "many"}, "'most' 'preview' integer 'many'", "2"),
        ({"isolated": "no"}, "true false 'no'", "true"),
        ({"share": "half"}, "number 'half'", "0.5"),
    ],
)
def test_parameters_have_the_type_of_their_default(
    templated: Project, given: dict[str, str], message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ProjectFiles(templated).template("preview").parameters(given)
    assert all(word in caught.value.message for word in message.split())
    assert remedy in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "code"),
    [
        ("locks: dev", "locks: devel", 2, "template.locks", "TS201"),
        ("longest: 72h", "longest: 3 days", 4, "template.longest", "TS111"),
        ("purpose: preview of", "purpose: preview [of]", 3, "template.purpose", "TS111"),
        ("    share", "    owner", 9, "template.parameters.owner", "TS124"),
        ("    share", "    Share", 9, "template.parameters.Share", "TS124"),
        ("share: 0.5", f"share: {'x' * 1001}", 9, "template.parameters.share", "TS111"),
        ("  locks: dev\n", "", 1, "template.locks", "TS106"),
        ("longest:", "longst:", 4, "template.longst", "TS104"),
        ("name: ${name}", "name: preview", 10, "name", "TS124"),
        ("eu-west-1", "${machine}", 12, "region", "TS124"),
        ("removal: destroy", "removal: retain", 14, "removal", "TS124"),
        ("removal: destroy", "removal: destroy\nprotected: true", 15, "protected", "TS124"),
        ("{team: search,", "{owner: search,", 15, "tags.owner", "TS124"),
        (
            "instance_type: ${machine}",
            "instance_type: ${machin}",
            20,
            "endpoints.search.instance_type",
            "TS124",
        ),
        ("    machine: ml.c7i.large", "    machine: ml.c7i", 20, "endpoints.search.instance_type", "TS111"),
        ("model: minilm", "model: minilmm", 19, "endpoints.search.model", "TS201"),
        ('{team: search, what: "${name} on ${machine}"}', "[search]", 15, "tags", "TS111"),
    ],
)
def test_a_templates_violations_are_reported_with_file_and_line(
    templated: Project, old: str, new: str, line: int, field: str, code: str
) -> None:
    file = templated.template_file("preview")
    edit(file, old, new)
    (violation,) = validate_project(ProjectFiles(templated))
    assert (violation.file, violation.line, violation.field, violation.code) == (file, line, field, code)
    assert violation.remedy


def test_template_without_a_header_is_reported_with_an_example(templated: Project) -> None:
    templated.template_file("preview").write_text("name: x\n")
    with pytest.raises(InvalidFilesError, match="'template'") as caught:
        ProjectFiles(templated).template("preview")
    assert [violation.code for violation in caught.value.violations] == ["TS106"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dev", "environments/ .* 'dev'"),
        ("preview", "environments/ .* 'preview'"),
        ("PR-1", "invalid name"),
        ("a--b", "invalid name"),
    ],
)
def test_reserved_instance_names_are_rejected(templated: Project, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ProjectFiles(templated).instance(sample_instance("preview", name))


def test_too_long_names_are_reported_before_any_deploy(templated: Project) -> None:
    with pytest.raises(InvalidFilesError, match=" 63 "):
        ProjectFiles(templated).instance(sample_instance("preview", "a" * 40))


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("30m", timedelta(minutes=30)),
        ("4h", timedelta(hours=4)),
        ("1d12h", timedelta(hours=36)),
        ("1d1h1m", timedelta(minutes=1501)),
    ],
)
def test_lengths_of_time(text: str, length: timedelta) -> None:
    assert parse_lifetime(text) == length


@pytest.mark.parametrize("text", ["", "4", "h", "0h", "4 h", "-4h", "4h1d", "1w", "1.5h"])
def test_invalid_durations_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        parse_lifetime(text)


def test_times_are_read_back_unchanged() -> None:
    moment = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert parse_moment(moment_text(moment)) == moment
    with pytest.raises(UsageError, match="invalid `expires` time"):
        parse_moment("2030-01-02 03:04")


NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("tags", "expired"),
    [
        ({}, False),
        ({"expires": "2030-01-02T03:04:05Z"}, True),
        ({"expires": "2030-01-02T03:04:06Z"}, False),
        ({"expires": "soon"}, False),
        ({"Expires": "2000-01-01T00:00:00Z"}, False),
    ],
)
def test_only_a_readable_expiry_in_the_past_has_expired(tags: dict[str, str], expired: bool) -> None:
    assert has_expired(tags, NOW) is expired


def test_any_name_becomes_a_tag() -> None:
    assert tag_text("dependabot[bot] & Søn <a@b.c>") == "dependabot-bot- - Søn -a@b.c-"

"""Templates of environments: their instances, and their errors with file and line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.projects import edit
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.paths import Project
from tritonstack.project.loading import ProjectFiles, load_workspace, sample_instance
from tritonstack.project.names import environment_names, template_names
from tritonstack.project.validation import validate_project
from tritonstack.project.workspace import Workspace
from tritonstack.spec.environments.expiry import (
    has_expired,
    moment_text,
    parse_lifetime,
    parse_moment,
    tag_text,
)
from tritonstack.spec.environments.templates import Instance

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
    with pytest.raises(UsageError, match="is a template") as caught:
        load_workspace(templated, "preview")
    assert "--name" in str(caught.value.remedy)
    with pytest.raises(UsageError, match="not a template"):
        ProjectFiles(templated).template("dev")
    with pytest.raises(UsageError, match="unknown template 'previw'") as caught:
        ProjectFiles(templated).template("previw")
    assert caught.value.remedy == "did you mean 'preview'?"


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
        ({"mots": "3"}, "has no parameter 'mots'", "did you mean 'most'?"),
        ({"x": "3"}, "has no parameter 'x'", "known parameters: machine, most, isolated, share"),
        (
            {"most": "many"},
            "'most' of template 'preview': expected an integer, got 'many'",
            "for example the default, 2",
        ),
        ({"isolated": "no"}, "expected true or false, got 'no'", "for example the default, true"),
        ({"share": "half"}, "expected a number, got 'half'", "for example the default, 0.5"),
    ],
)
def test_parameters_have_the_type_of_their_default(
    templated: Project, given: dict[str, str], message: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ProjectFiles(templated).template("preview").parameters(given)
    assert message in caught.value.message
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "message"),
    [
        ("locks: dev", "locks: devel", 2, "template.locks", "unknown environment 'devel'"),
        ("longest: 72h", "longest: 3 days", 4, "template.longest", "invalid duration"),
        ("purpose: preview of", "purpose: preview [of]", 3, "template.purpose", "invalid tag value"),
        ("    share", "    owner", 9, "template.parameters.owner", "this parameter is built in"),
        ("    share", "    Share", 9, "template.parameters.Share", "invalid parameter name"),
        ("share: 0.5", f"share: {'x' * 1001}", 9, "template.parameters.share", "expected at most 1000"),
        ("  locks: dev\n", "", 1, "template.locks", "required key is missing"),
        ("longest:", "longst:", 4, "template.longst", "unknown key"),
        ("name: ${name}", "name: preview", 10, "name", "each instance needs its own name"),
        ("eu-west-1", "${machine}", 12, "region", "this field cannot use parameters"),
        ("removal: destroy", "removal: retain", 14, "removal", "expiring environments can be neither"),
        (
            "removal: destroy",
            "removal: destroy\nprotected: true",
            15,
            "protected",
            "expiring environments can be neither",
        ),
        ("{team: search,", "{owner: search,", 15, "tags.owner", "each instance sets this tag"),
        (
            "instance_type: ${machine}",
            "instance_type: ${machin}",
            20,
            "endpoints.search.instance_type",
            "unknown par",
        ),
        ("    machine: ml.c7i.large", "    machine: ml.c7i", 20, "endpoints.search.instance_type", "ml.c7i"),
        ("model: minilm", "model: minilmm", 19, "endpoints.search.model", "unknown model 'minilmm'"),
        ("tags: {team: search, what: ", "tags: [", 15, "tags", "a mapping"),
    ],
)
def test_a_templates_violations_are_reported_with_file_and_line(
    templated: Project, old: str, new: str, line: int, field: str, message: str
) -> None:
    file = templated.template_file("preview")
    edit(file, old, new)
    if new == "tags: [":
        edit(file, '"${name} on ${machine}"}', "search]")
    violations = validate_project(ProjectFiles(templated))
    assert [(violation.file, violation.line, violation.field) for violation in violations] == [
        (file, line, field)
    ]
    assert message in violations[0].message
    assert violations[0].remedy is not None or "missing" in message


def test_template_without_a_header_is_reported_with_an_example(templated: Project) -> None:
    templated.template_file("preview").write_text("name: x\n")
    with pytest.raises(InvalidFilesError, match="required key 'template' is missing"):
        ProjectFiles(templated).template("preview")


def test_valid_template_has_no_violations(templated: Project) -> None:
    assert validate_project(ProjectFiles(templated)) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dev", "environments/ already has a file for 'dev'"),
        ("preview", "environments/ already has a file for 'preview'"),
        ("PR-1", "invalid name"),
        ("a--b", "invalid name"),
    ],
)
def test_reserved_instance_names_are_rejected(templated: Project, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ProjectFiles(templated).instance(sample_instance("preview", name))


def test_too_long_names_are_reported_before_any_deploy(templated: Project) -> None:
    with pytest.raises(InvalidFilesError, match="at most 63 characters"):
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

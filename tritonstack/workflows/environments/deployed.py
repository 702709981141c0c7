"""Environments that are to be taken down or looked over: found by their files, or by name alone.

What is left of an environment can outlive its file. Then its stacks are looked for wherever this project's
environments live, or where --account and --region say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tritonstack.base import naming
from tritonstack.base.documents import closest, load_document
from tritonstack.base.errors import FileProblem, InvalidFilesError, UsageError
from tritonstack.base.naming import check_name
from tritonstack.base.paths import Project
from tritonstack.base.yaml_reading import parse_yaml, read_text
from tritonstack.operations.aws import Cloud, CloudAccessError
from tritonstack.operations.destruction.protection import refuse_protected
from tritonstack.operations.stacks import environment_stacks
from tritonstack.project.loading import (
    environment_names,
    find_template,
    require_free,
    sample_instance,
    template_names,
)
from tritonstack.spec.environments.environment import EnvironmentSpec
from tritonstack.spec.environments.templates import instance_document
from tritonstack.workflows.session import Session

DEFAULT_PREFIX = str(EnvironmentSpec.model_fields["name_prefix"].default)


@dataclass(frozen=True, order=True)
class Ground:
    """Where environments live, and what their names begin with."""

    account: str
    region: str
    prefix: str = DEFAULT_PREFIX


@dataclass(frozen=True)
class Place:
    """Where --account, --region and --prefix say to look."""

    account: str | None = None
    region: str | None = None
    prefix: str | None = None

    def admits(self, ground: Ground) -> bool:
        """Whether a ground is one that is meant."""
        return (
            self.account in (None, ground.account)
            and self.region in (None, ground.region)
            and self.prefix in (None, ground.prefix)
        )


@dataclass(frozen=True)
class Standing:
    """One environment, whether or not there is a file of it."""

    name: str
    base: str
    cloud: Cloud
    file: Path
    """What describes it, or would."""
    words: str
    """What a command has to be told to mean it."""
    spec: EnvironmentSpec | None = None
    """What its file says; None where there is none."""


def require_unprotected_file(project: Project, environment: str, name: str | None, place: Place) -> None:
    """Refuse what its file protects, whether or not its account can be reached."""
    if described := _described(project, environment, name, place):
        spec, file = described
        refuse_protected(spec, file)


def find_standing(session: Session, environment: str, name: str | None, place: Place) -> Standing:
    """The environment that is meant, with its cloud at hand."""
    if described := _described(session.project, environment, name, place):
        spec, file = described
        return Standing(spec.name, spec.base, session.cloud(spec), file, _words(environment, name), spec)
    return _found_by_name(session, environment, name, place)


def grounds(project: Project) -> list[Ground]:
    """Where the environments of a project live, as far as their files can be read."""
    files = [project.environment_file(name) for name in environment_names(project)]
    files += [project.template_file(name) for name in template_names(project)]
    return sorted(set(_grounds_of(files)))


def require_grounds(project: Project, place: Place) -> list[Ground]:
    """Where environments can be that are not named one by one, as far as --account and the rest admit it."""
    found = _candidates(project, place)
    if not found:
        raise UsageError(
            "no environment of this project lives there",
            remedy="name both --account and --region, or leave them out",
        )
    return found


def _grounds_of(files: list[Path]) -> Iterator[Ground]:
    for file in files:
        try:
            data, _ = parse_yaml(read_text(file), file)
        except InvalidFilesError:
            continue  # `tritonstack validate` tells of it
        if isinstance(data, dict) and "account" in data and "region" in data:
            yield Ground(
                str(data["account"]), str(data["region"]), str(data.get("name_prefix", DEFAULT_PREFIX))
            )


def _described(
    project: Project, environment: str, name: str | None, place: Place
) -> tuple[EnvironmentSpec, Path] | None:
    """What the files say of it; None where there is no file, or the one there is means another place.

    Locks and models do not matter here.
    """
    if name is not None:
        require_free(project, name)
    described = _instance(project, environment, name) if name else _environment(project, environment)
    if described is None:
        return None
    spec = described[0]
    # Said once more, the place of an environment that has a file takes nothing from what the file protects.
    return described if place.admits(Ground(spec.account, spec.region, spec.name_prefix)) else None


def _environment(project: Project, environment: str) -> tuple[EnvironmentSpec, Path] | None:
    if environment in template_names(project):
        raise UsageError(f"{environment!r} is a template, not an environment", remedy="add --name <name>")
    if environment not in environment_names(project):
        return None
    file = project.environment_file(environment)
    document = load_document(file, EnvironmentSpec)
    if document.record.name != environment:
        raise InvalidFilesError(
            [FileProblem(file, document.line_of(("name",)), "name", f"this is not {environment!r}")]
        )
    return document.record, file


def _instance(project: Project, environment: str, name: str) -> tuple[EnvironmentSpec, Path] | None:
    if environment not in template_names(project):
        return None
    template = find_template(project, environment)
    return instance_document(template, sample_instance(environment, name)).record, template.file


def _found_by_name(session: Session, environment: str, name: str | None, place: Place) -> Standing:
    """An environment without a file, by its stacks; where nothing stands of it, one ground must be meant."""
    meant = name or environment
    try:
        check_name(meant)
    except ValueError as error:
        raise UsageError(str(error)) from None
    reached, unreachable = [], []
    for ground in _candidates(session.project, place):
        try:
            cloud = session.cloud_at(ground.account, ground.region, what=f"what is left of {meant!r}")
        except CloudAccessError as error:
            unreachable.append(f"{ground.account} {ground.region}: {error.message}")
            continue
        base = naming.environment_prefix(prefix=ground.prefix, environment=meant)
        file, words = session.project.environment_file(meant), _words(environment, name)
        reached.append(Standing(meant, base, cloud, file, words))
    there = [item for item in reached if environment_stacks(item.cloud, item.base)]
    chosen = there or reached
    if len(chosen) == 1:
        return chosen[0]
    places = ", ".join(f"{item.cloud.account} {item.cloud.region}" for item in chosen)
    suggestion = None if there else closest(environment, _described_names(session.project, name))
    if suggestion:
        raise UsageError(f"there is no environment {environment!r}", remedy=f"did you mean '{suggestion}'?")
    found = (
        f"stacks of that name stand in several places: {places}"
        if there
        else f"no stack of that name stands in {places or 'any account that can be reached'}"
    )
    raise UsageError(
        "\n".join([f"there is no file of {meant!r}, and {found}", *unreachable]),
        remedy="name the place with --account, --region and, if it is not the usual one, --prefix",
    )


def _described_names(project: Project, name: str | None) -> list[str]:
    """What the first word of a command may be, with a file."""
    return template_names(project) if name else environment_names(project)


def _candidates(project: Project, place: Place) -> list[Ground]:
    known = [ground for ground in grounds(project) if place.admits(ground)]
    if place.account and place.region:
        known.append(Ground(place.account, place.region, place.prefix or DEFAULT_PREFIX))
    return sorted(set(known))


def _words(environment: str, name: str | None) -> str:
    return f"{environment} --name {name}" if name else environment

"""Find deployed environments by their files, or by name alone.

Resources of an environment can outlive its file. Its stacks are then searched for in every location of the
project's environments, or in the one that --account and --region name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tritonstack.base import naming
from tritonstack.base.error_kinds import (
    CommandLineError,
    NotDeployedError,
    UnknownNameError,
    UnusableNameError,
)
from tritonstack.base.errors import FileViolation, InvalidFilesError, UsageError, shown_path
from tritonstack.base.naming import check_name
from tritonstack.base.paths import Project
from tritonstack.base.yaml import closest, load_document, load_yaml, parse_yaml, read_text
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.templates import instance_document
from tritonstack.files.loading import ProjectFiles, require_free, sample_instance
from tritonstack.files.project.names import environment_names, template_names
from tritonstack.operate.shared.aws import Cloud, CloudAccessError
from tritonstack.operate.shared.checkout import Checkout
from tritonstack.operate.shared.session import Session
from tritonstack.operate.shared.stacks import StackState, environment_stacks

# Two safeguards against two mistakes:
#
# 1. Protection: the environment's file sets `protected`, and CloudFormation rejects deletion of its stacks.
#    Lifting it requires `protected: false` in the file, committed and deployed, so others can review it.
# 2. Confirmation: an environment that retains data, or was ever protected, is destroyed only after the user
#    types its name. This prevents running the right command in the wrong place.


class ProtectedError(UsageError):
    """The environment or its data must not be deleted. Set `protected: false`, deploy that, then destroy;
    environments with data also ask for their name.
    """

    code = "TS509"
    title = "Environment is protected"


def require_unprotected(
    name: str, *, spec: EnvironmentSpec | None, file: Path, stacks: Iterable[StackState], checkout: Checkout
) -> None:
    """Reject destruction unless protection is lifted in the file, in git, and in the deployed stacks.

    `spec` is None without a file; then only the deployed stacks decide.
    """
    if spec is not None:
        reject_protected(spec, file)
    if rejection := next(_rejections(name, spec, file, list(stacks), checkout), None):
        message, remedy = rejection
        raise ProtectedError(message, remedy=remedy)


def reject_protected(spec: EnvironmentSpec, file: Path) -> None:
    """Reject an environment that its file protects."""
    if spec.is_protected:
        why = "" if spec.protected else " (the default when `removal` retains data)"
        raise ProtectedError(
            f"environment {spec.name!r} is protected by {shown_path(file)}{why}",
            remedy="set `protected: false`, merge the change, "
            f"run `tritonstack deploy {spec.name}`, and retry",
        )


def _rejections(
    name: str, spec: EnvironmentSpec | None, file: Path, stacks: Sequence[StackState], checkout: Checkout
) -> Iterator[tuple[str, str]]:
    shown = shown_path(file)
    locked = [stack.name for stack in stacks if stack.protected]
    if locked:
        yield (
            f"the deployed stacks of environment {name!r} are protected: {', '.join(locked)}",
            f"{shown} lifts the protection: run `tritonstack deploy {name}` and retry"
            if spec
            else f"restore {shown} with `protected: false`, deploy it, and retry",
        )
    if (
        spec is not None
        and spec.protected is False
        and checkout.exists
        and checkout.file_at("HEAD", file) != file.read_text(encoding="utf-8")
    ):
        yield (
            f"`protected: false` in {shown} is not committed",
            "commit it, so that others can review the change",
        )


def needs_its_name(spec: EnvironmentSpec | None, *, file: Path, keeps_data: bool, checkout: Checkout) -> bool:
    """Return whether destruction requires typing the environment's name.

    `keeps_data` comes from its deployed stacks.
    """
    if keeps_data or (spec is not None and (spec.removal == "retain" or spec.protected is not None)):
        return True
    return any(_protects(text) for text in _versions(checkout, file))


def _versions(checkout: Checkout, file: Path) -> Iterator[str]:
    for commit in checkout.changes_of(file):
        text = checkout.file_at(commit.id, file)
        if text is not None:
            yield text


def _protects(text: str) -> bool:
    try:
        data = load_yaml(text)
    except yaml.YAMLError:
        return False  # never deployed from this version
    if not isinstance(data, dict):
        return False
    protected = data.get("protected")
    return bool(data.get("removal") != "destroy" if protected is None else protected)


DEFAULT_PREFIX = str(EnvironmentSpec.model_fields["name_prefix"].default)


@dataclass(frozen=True, order=True)
class Location:
    """An account and region, and the prefix of the names in it."""

    account: str
    region: str
    prefix: str = DEFAULT_PREFIX


@dataclass(frozen=True)
class LocationFilter:
    """Restricts a search to an account, a region, or a prefix; None admits all."""

    account: str | None = None
    region: str | None = None
    prefix: str | None = None

    def admits(self, location: Location) -> bool:
        """Return True if the location passes the filter."""
        return (
            self.account in (None, location.account)
            and self.region in (None, location.region)
            and self.prefix in (None, location.prefix)
        )


@dataclass(frozen=True)
class DeployedEnvironment:
    """An environment to destroy or audit, with or without a file."""

    name: str
    base: str
    cloud: Cloud
    file: Path
    """Its file; it may not exist."""
    cli_arguments: str
    """The command-line arguments that select it."""
    spec: EnvironmentSpec | None = None
    """The contents of its file; None without one."""


def require_unprotected_file(
    project: Project, environment: str, name: str | None, place: LocationFilter
) -> None:
    """Raise if the file protects the environment, even if its account is unreachable."""
    if described := _described(project, environment, name, place):
        spec, file = described
        reject_protected(spec, file)


def find_deployed(
    session: Session, environment: str, name: str | None, place: LocationFilter
) -> DeployedEnvironment:
    """Return an environment, with access to its cloud."""
    if described := _described(session.project, environment, name, place):
        spec, file = described
        return DeployedEnvironment(
            spec.name, spec.base, session.cloud(spec), file, _cli_arguments(environment, name), spec
        )
    return _found_by_name(session, environment, name, place)


def locations(project: Project) -> list[Location]:
    """Return the locations of a project's environments; unreadable files are skipped."""
    files = [project.environment_file(name) for name in environment_names(project)]
    files += [project.template_file(name) for name in template_names(project)]
    return sorted(set(_locations_of(files)))


def require_locations(project: Project, place: LocationFilter) -> list[Location]:
    """Return the locations that pass the filter; raises UsageError if there is none."""
    candidates = _candidates(project, place)
    if not candidates:
        raise NotDeployedError(
            "no environment of this project is at that location",
            remedy="name both --account and --region, or omit them",
        )
    return candidates


def _locations_of(files: list[Path]) -> Iterator[Location]:
    for file in files:
        try:
            data, _ = parse_yaml(read_text(file), file)
        except InvalidFilesError:
            continue  # `tritonstack validate` reports it
        if isinstance(data, dict) and "account" in data and "region" in data:
            yield Location(
                str(data["account"]), str(data["region"]), str(data.get("name_prefix", DEFAULT_PREFIX))
            )


def _described(
    project: Project, environment: str, name: str | None, place: LocationFilter
) -> tuple[EnvironmentSpec, Path] | None:
    """Return the spec and file of an environment; None without a file, or if its location is filtered out.

    Locks and models are not checked.
    """
    if name is not None:
        require_free(project, name)
    described = _instance(project, environment, name) if name else _environment(project, environment)
    if described is None:
        return None
    spec = described[0]
    # Options that repeat the location of the file do not bypass its protection.
    return described if place.admits(Location(spec.account, spec.region, spec.name_prefix)) else None


def _environment(project: Project, environment: str) -> tuple[EnvironmentSpec, Path] | None:
    if environment in template_names(project):
        raise CommandLineError(
            f"{environment!r} is a template, not an environment",
            remedy="add --name <name>; `tritonstack status` lists its instances",
        )
    if environment not in environment_names(project):
        return None
    file = project.environment_file(environment)
    document = load_document(file, EnvironmentSpec)
    if document.record.name != environment:
        raise InvalidFilesError(
            [
                FileViolation(
                    file,
                    document.line_of(("name",)),
                    "name",
                    f"expected {environment!r}, the name of the file",
                    f"write `name: {environment}`, or rename the file",
                    code=UnusableNameError.code,
                )
            ]
        )
    return document.record, file


def _instance(project: Project, environment: str, name: str) -> tuple[EnvironmentSpec, Path] | None:
    if environment not in template_names(project):
        if environment in environment_names(project):
            raise CommandLineError(f"{environment!r} is an environment, not a template", remedy="omit --name")
        return None
    template = ProjectFiles(project).template(environment)
    return instance_document(template, sample_instance(environment, name)).record, template.file


def _found_by_name(
    session: Session, environment: str, name: str | None, place: LocationFilter
) -> DeployedEnvironment:
    """Find an environment without a file by its stacks; without stacks, one location must remain."""
    full_name = name or environment
    try:
        check_name(full_name)
    except ValueError as error:
        raise CommandLineError(
            str(error), remedy="correct the name; `tritonstack status` lists the environments"
        ) from None
    reached, unreachable = [], []
    for location in _candidates(session.project, place):
        try:
            cloud = session.cloud_at(location.account, location.region, subject=f"environment {full_name!r}")
        except CloudAccessError as error:
            unreachable.append(f"{location.account} {location.region}: {error.message}")
            continue
        base = naming.environment_prefix(prefix=location.prefix, environment=full_name)
        file, arguments = session.project.environment_file(full_name), _cli_arguments(environment, name)
        reached.append(DeployedEnvironment(full_name, base, cloud, file, arguments))
    deployed = [item for item in reached if environment_stacks(item.cloud, item.base)]
    chosen = deployed or reached
    if len(chosen) == 1:
        return chosen[0]
    places = ", ".join(f"{item.cloud.account} {item.cloud.region}" for item in chosen)
    described = template_names(session.project) if name else environment_names(session.project)
    if environment in described and not deployed:
        raise NotDeployedError(
            "\n".join([f"{full_name!r} has no stack in {places or 'any accessible account'}", *unreachable]),
            remedy=f"omit --account, --region, and --prefix to search where {environment!r} is deployed",
        )
    suggestion = None if deployed else closest(environment, described)
    if suggestion:
        raise UnknownNameError(
            f"unknown {'template' if name else 'environment'} {environment!r}",
            remedy=f"did you mean '{suggestion}'?",
        )
    environments = (
        f"stacks with that name exist in several locations: {places}"
        if deployed
        else f"no stack with that name exists in {places or 'any accessible account'}"
    )
    raise NotDeployedError(
        "\n".join([f"{full_name!r} has no file, and {environments}", *unreachable]),
        remedy="name the location with --account, --region, and --prefix unless it is the default",
    )


def _candidates(project: Project, place: LocationFilter) -> list[Location]:
    admitted = [location for location in locations(project) if place.admits(location)]
    if place.account and place.region:
        admitted.append(Location(place.account, place.region, place.prefix or DEFAULT_PREFIX))
    return sorted(set(admitted))


def _cli_arguments(environment: str, name: str | None) -> str:
    return f"{environment} --name {name}" if name else environment

"""Add a model, an endpoint, or an environment to a project. Nothing is written unless the result is valid."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tritonstack.base.error_kinds import CommandLineError, NameInUseError, UnknownNameError
from tritonstack.base.errors import InvalidFilesError, shown_path
from tritonstack.base.files import remove_abandoned, staging_folder, write_text_atomically
from tritonstack.base.naming import check_name
from tritonstack.base.paths import Project
from tritonstack.base.results import Internal
from tritonstack.base.yaml import closest, parse_document, read_text
from tritonstack.facts.releases import RELEASES
from tritonstack.files.endpoint.endpoint import MultiModelEndpoint, SingleEndpoint
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.loading import ProjectFiles, load_models, load_workspace
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.project.names import environment_names
from tritonstack.files.scaffold.commented_yaml import commented_yaml, insert_endpoint
from tritonstack.files.scaffold.model_files import RECIPES, SOURCELESS, NewModel, model_texts

SOURCE_FOLDER = "source"
"""Folder of a model with the files that were copied into it."""
CPU_INSTANCE, GPU_INSTANCE = "ml.c7i.large", "ml.g5.xlarge"
_STAGING = ".new-"
_COPY = "check that the file exists and is readable, and that the disk has space"
_USUAL_FILES = {"trees": "model.json", "scikit-learn": "model.joblib"}
"""The model's file in the source, for recipes without a default."""
_ENDPOINT_KEYS = ("scaling", "rollout", "alarms", "metrics", "data_capture")
_ENVIRONMENT_KEYS = ("promotion", "protected", "keep_locks", "alarm_emails", "tags", "network", "builds")


@dataclass(frozen=True)
class NewFiles:
    """What was written."""

    name: str
    files: tuple[Path, ...]
    """New files, or the file that was changed."""
    next_command: Internal[str] = ""
    """The command that adds the artifacts of a new endpoint to the lock."""


def new_model(
    project: Project,
    name: str,
    *,
    recipe: str,
    source: str | None = None,
    copy: Path | None = None,
    members: Sequence[str] = (),
) -> NewFiles:
    """Create the folder of a model with a commented model.yaml.

    `copy` is a file or a folder to copy into the model's folder as its source. `members` are the models of an
    ensemble, in order.
    """
    _check_name(name)
    _check_recipe(recipe, source, copy, members)
    require_new(project, name)
    inputs = _first_inputs(project, members)
    texts = model_texts(NewModel(name, recipe, _source(source, copy), _file(recipe, copy), members, inputs))
    options = {"source": "--source", "recipe.file": "--from", "recipe.steps": "--step"}
    with _blaming_options(project.model_file(name), options):
        parse_document(texts["model.yaml"].decode(), project.model_file(name), ModelSpec)
    with _blaming_options(project.model_file(name), options), adding_model(project, name) as staged:
        for file, content in texts.items():
            (staged / file).write_bytes(content)
        if copy is not None:
            _copy_source(copy, staged / SOURCE_FOLDER)
    return NewFiles(name, model_folder_files(project, name))


def require_new(project: Project, name: str, *, remedy: str | None = None) -> None:
    """Raise UsageError if the name is invalid or taken."""
    _check_name(name)
    folder = project.models_dir / name
    if folder.exists():
        place = shown_path(folder)
        raise NameInUseError(
            f"{place} already exists",
            remedy=remedy or f"choose another name, or delete {place} to create it again",
        )


@contextmanager
def adding_model(project: Project, name: str) -> Iterator[Path]:
    """Give an empty folder for the files of a new model; then move it to its place, if it is valid.

    Nothing remains after an error. The rename is the only step that adds the model.
    """
    folder = project.models_dir / name
    with staging_folder(project.models_dir, _STAGING) as place:
        staged = place / "models" / name
        staged.mkdir(parents=True)
        yield staged
        staged.rename(folder)
    try:
        load_models(project, name)
    except BaseException:
        shutil.rmtree(folder)
        raise


def remove_unfinished_models(project: Project) -> None:
    """Delete the hidden folders of models whose import or creation was killed."""
    remove_abandoned(project.models_dir, _STAGING)


def model_folder_files(project: Project, name: str) -> tuple[Path, ...]:
    """Return the files of a model's folder, sorted."""
    return tuple(sorted(file for file in (project.models_dir / name).rglob("*") if file.is_file()))


def endpoint_command(project: Project, model: str) -> str:
    """Return the command that adds an endpoint for a new model, in the local environment if there is one."""
    names = environment_names(project)
    environment = "local" if "local" in names else next(iter(names), "ENVIRONMENT")
    return f"tritonstack new endpoint {model} --environment {environment} --model {model}"


def new_endpoint(
    project: Project,
    name: str,
    *,
    environment: str,
    models: Sequence[str],
    instance_type: str | None = None,
    image: str | None = None,
) -> NewFiles:
    """Add an endpoint to an environment file. Several models become a multi-model endpoint."""
    _check_name(name)
    files = ProjectFiles(project)
    files.workspace(environment)
    documents = {model: files.with_members(model) for model in models}
    if not documents:
        raise CommandLineError("an endpoint needs a model", remedy="add --model NAME")
    members = (member for models in documents.values() for member in models.values())
    gpu = any("cpu" not in member.record.builds_for for member in members)
    instance = instance_type or (GPU_INSTANCE if gpu else CPU_INSTANCE)
    custom = {} if image is None else {"image": image}
    if len(models) > 1:
        values: dict[str, Any] = {
            "kind": "multi-model",
            "models": list(models),
            "instance_type": instance,
            **custom,
        }
        body = commented_yaml(MultiModelEndpoint, values, optional=_ENDPOINT_KEYS)
    else:
        layout = documents[models[0]][models[0]].record.layout
        values = {"kind": layout, "model": models[0], "instance_type": instance, **custom}
        body = commented_yaml(SingleEndpoint, values, optional=_ENDPOINT_KEYS)
    file = project.environment_file(environment)
    text = insert_endpoint(read_text(file), name, body)
    place = f"endpoints.{name}"
    with _blaming_options(file, {f"{place}.instance_type": "--instance-type", f"{place}.image": "--image"}):
        workspace = files.workspace(environment, text=text)
    write_text_atomically(file, text)
    return NewFiles(name, (file,), workspace.lock_command)


def new_environment(
    project: Project, name: str, *, account: str, region: str, promote_from: str | None = None
) -> NewFiles:
    """Create the file of an environment without endpoints."""
    _check_name(name)
    file = project.environment_file(name)
    for existing in (file, project.template_file(name)):
        if existing.exists():
            raise NameInUseError(f"{shown_path(existing)} already exists", remedy="choose another name")
    values: dict[str, Any] = {
        "name": name,
        "account": account,
        "region": region,
        "triton_release": max(RELEASES),
        "removal": "retain",
    }
    if promote_from is not None:
        values["promotion"] = {"source": promote_from}
    text = commented_yaml(EnvironmentSpec, values, optional=_ENVIRONMENT_KEYS)
    text += commented_yaml(EnvironmentSpec, {"endpoints": {}}, optional=())
    options = {
        "account": "--account",
        "region": "--region",
        "promotion": "--promote-from",
        "promotion.source": "--promote-from",
    }
    with _blaming_options(file, options):
        load_workspace(project, name, text=text)
    project.environments_dir.mkdir(exist_ok=True)
    write_text_atomically(file, text)
    return NewFiles(name, (file,))


@contextmanager
def _blaming_options(file: Path, options: Mapping[str, str]) -> Iterator[None]:
    """Report problems of a file that was not written by the options that caused them, by field."""
    try:
        yield
    except InvalidFilesError as error:
        violations = [
            (options.get(violation.field), violation)
            for violation in error.violations
            if violation.file == file
        ]
        named = [(option, violation) for option, violation in violations if option]
        if not named:
            raise
        raise CommandLineError(
            "\n".join(f"{option}: {violation.message}" for option, violation in named),
            remedy=named[-1][1].remedy,
        ) from None


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except ValueError as error:
        text, _, remedy = str(error).partition("; ")
        raise CommandLineError(text, remedy=remedy) from None


def _check_recipe(recipe: str, source: str | None, copy: Path | None, members: Sequence[str]) -> None:
    if recipe not in RECIPES:
        suggestion = closest(recipe, RECIPES)
        raise UnknownNameError(
            f"unknown recipe {recipe!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else f"use one of: {', '.join(RECIPES)}",
        )
    if source is not None and copy is not None:
        raise CommandLineError("--source and --from exclude each other", remedy="keep one")
    if source is None and copy is None and recipe not in SOURCELESS:
        raise CommandLineError(
            f"the recipe {recipe} needs a source",
            remedy="add --source hf://<org>/<name>@<commit> or --from PATH",
        )
    if copy is not None and not copy.exists():
        raise CommandLineError(f"{copy}: file not found", remedy="name a file or a folder")
    if recipe == "ensemble" and len(members) < 2:
        raise CommandLineError(
            f"expected at least 2 models in an ensemble, got {len(members)}",
            remedy="add --step MODEL for each, in order",
        )
    if members and recipe != "ensemble":
        raise CommandLineError(f"the recipe {recipe} has no steps", remedy="omit --step")


def _source(source: str | None, copy: Path | None) -> str | None:
    return f"file://{SOURCE_FOLDER}" if copy is not None else source


def _file(recipe: str, copy: Path | None) -> str | None:
    """Return the model's file in the source, for recipes that name one."""
    if "file" not in RECIPES[recipe].model_fields:
        return None
    if copy is not None and copy.is_file():
        return copy.name
    return _USUAL_FILES.get(recipe)


def _copy_source(source: Path, target: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git"))
        else:
            target.mkdir()
            shutil.copy2(source, target)
    except shutil.Error as error:
        name, _, reason = error.args[0][0]
        raise CommandLineError(f"{name}: cannot copy: {reason}", remedy=_COPY) from None
    except OSError as error:
        raise CommandLineError(f"{error.filename}: cannot copy: {error.strerror}", remedy=_COPY) from None


def _first_inputs(project: Project, members: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the test inputs of an ensemble's first model, unless they are files. Check that all exist."""
    if not members:
        return []
    first, *_ = [load_models(project, member)[member].record for member in members]
    if any(test_input.own_files for test_input in first.test_inputs):
        return []
    return [
        inputs.model_dump(exclude_none=True, exclude={"outputs"}, mode="json") for inputs in first.test_inputs
    ]

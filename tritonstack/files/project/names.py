"""Names of a project's environments, templates, and models, from the names of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tritonstack.base.error_kinds import UnknownNameError, UnusableNameError
from tritonstack.base.errors import FileViolation, closest
from tritonstack.base.paths import LOCK_SUFFIX, TEMPLATE_SUFFIX, Project


def environment_names(project: Project) -> list[str]:
    """Return the permanent environments of a project, sorted."""
    files = project.environments_dir.glob("*.yaml")
    return sorted(file.stem for file in files if not file.name.endswith((LOCK_SUFFIX, TEMPLATE_SUFFIX)))


def template_names(project: Project) -> list[str]:
    """Return the templates of a project, sorted."""
    files = project.environments_dir.glob(f"*{TEMPLATE_SUFFIX}")
    return sorted(file.name.removesuffix(TEMPLATE_SUFFIX) for file in files)


def model_names(project: Project) -> list[str]:
    """Return the models of a project, sorted."""
    return sorted(file.parent.name for file in project.models_dir.glob("*/model.yaml"))


def has_model(project: Project, name: str) -> bool:
    """Check whether a project has a model, without listing all of them."""
    file = project.model_file(name)
    return file.parent.parent == project.models_dir and file.exists()


def ignored_files(project: Project) -> Iterator[FileViolation]:
    """Yield files and folders of environments and models whose names make them ineffective."""
    for file in (*project.root.glob("delivery.*"), *project.environments_dir.glob("[!.]*")):
        if file.suffix != ".yaml" and _is_yaml(file):
            yield _ignored(file, f"rename it to {file.stem}.yaml")
    for entry in project.models_dir.glob("[!._]*"):
        if _is_yaml(entry):
            yield _ignored(entry, f"move it to models/{entry.stem}/model.yaml")
        elif entry.is_dir() and not (entry / "model.yaml").exists():
            yield from _without_model(entry)


def _without_model(folder: Path) -> Iterator[FileViolation]:
    misnamed = [file for file in folder.glob("model.*") if _is_yaml(file)]
    for file in misnamed:
        yield _ignored(file, "rename it to model.yaml")
    if not misnamed and any(folder.glob("[!._]*")):
        yield _ignored(folder, "add its model.yaml, or remove the folder", " because it has no model.yaml")


def _is_yaml(file: Path) -> bool:
    return file.suffix.lower() in (".yaml", ".yml") and file.is_file()


def _ignored(file: Path, remedy: str, reason: str = "") -> FileViolation:
    return FileViolation(file, None, "", f"ignored{reason}", remedy, code=UnusableNameError.code)


def require_known(name: str, choices: Iterable[str], complaint: str, *, heading: str = "it has") -> None:
    """Raise UsageError if a name is none of the choices; name the closest, or list them under a heading."""
    names = list(choices)
    if name not in names:
        suggestion = closest(name, names)
        listed = f"{heading}: {', '.join(names[:10]) or 'none'}"
        remedy = f"did you mean '{suggestion}'?" if suggestion else listed
        raise UnknownNameError(f"{complaint} {name!r}", remedy=remedy)

"""Write the files of a new repository from the templates in this folder, and the pins of an existing one."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tritonstack.base.error_kinds import NameInUseError, NotApplicableError, StorageError, UnknownNameError
from tritonstack.base.errors import UsageError
from tritonstack.base.files import read_json, staging_folder, write_text_atomically
from tritonstack.base.paths import LOCK_SUFFIX, MARKER, Project, is_source_tree, shipped

FOLDER = Path(__file__).parent
APP = "tritonstack-app"
"""The console script that the CDK CLI runs."""
_NAMES = {"gitignore": ".gitignore", "github": ".github"}
"""Templates whose names have no leading dot in the wheel."""
_HEADER = (
    "# The packages that this release of tritonstack was tested with.",
    "# Written by `tritonstack upgrade`; put your own packages into requirements.txt.",
)
WORKFLOWS = ".github/workflows"
"""Delivers this repository's example project. A new repository gets the same files."""
_OWN_WORKFLOWS = ("audit.yml", "docs.yml", "release.yml")
"""They audit and publish tritonstack itself and its documentation."""
_README, _IGNORED = "README.md", ".gitignore"
TUTORIAL = "TUTORIAL.md"
"""An example's README, in a clone that has a readme already."""
_WEIGHTS, _EXPORTS = "weights", "exports"
"""Folders that an example's train.py writes: the weights of a model, and models to import. Not in git."""
_EXAMPLE_IGNORES = f"\n# Written by train.py.\n/models/*/{_WEIGHTS}/\n/{_EXPORTS}/\n"
_DEPLOY_LOCK, _LOCAL_LOCK = "requirements.lock.txt", "requirements-local.lock.txt"
_LOCKS = {
    _DEPLOY_LOCK: ("requirements.txt",),
    _LOCAL_LOCK: ("requirements-local.txt", "requirements-cuda.txt"),
}
"""The locks of a repository, and the files of the wheel that each has the packages of."""
_IN_NEW_CLONES = re.compile(r"\.git(ignore|attributes)?$|(?i:readme|licen[cs]e)(\..+)?$")
_REQUIREMENTS, _LOCAL_REQUIREMENTS = "requirements.txt", "requirements-local.txt"
_CONSTRAINTS = "constraints.txt"
"""Versions without hashes, which `requirements.txt` of a repository from version 0.1.0 names."""
_NAMES_CONSTRAINTS = re.compile(rf"^(-c|--constraint)[ =\t]+{re.escape(_CONSTRAINTS)}\s*$", re.MULTILINE)
_PIN = re.compile(
    r"^(tritonstack(?:-local|-sizing)?[ \t]*(?:\[[^]]*\])?[ \t]*==[ \t]*)([^\s;#]+)", re.MULTILINE
)
_DISTRIBUTION = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)


def running_version() -> str:
    """Return the version that a repository pins."""
    return importlib.metadata.version("tritonstack")


def examples() -> list[str]:
    """Return the names that `--example` accepts."""
    return sorted(_example_folders())


def create_repository(folder: Path, *, example: str | None) -> tuple[list[str], list[str]]:
    """Create a repository in a missing folder or a new git clone; return its new files and those kept.

    A new clone is empty, or has only what a hosting service creates, such as a readme and a licence.
    """
    if example is not None and example not in examples():
        raise UnknownNameError(f"unknown example {example!r}", remedy=f"use one of: {', '.join(examples())}")
    if folder.is_dir() and not all(_IN_NEW_CLONES.match(entry.name) for entry in folder.iterdir()):
        raise NameInUseError(f"{folder}: the folder is not empty", remedy="name a new or empty folder")
    if folder.exists() and not folder.is_dir():
        raise NameInUseError(f"{folder}: not a folder", remedy="name a new or empty folder")
    files = _contents(folder.resolve().name, example, has_readme=(folder / _README).exists())
    existing = sorted(name for name in files if (folder / name).exists())
    try:
        if folder.exists():
            _write_all(folder, files)
        else:
            _create_whole(folder, files)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageError(
            f"{folder}: the folder cannot be created ({error.strerror})",
            remedy="name a folder on a disk that you can write to",
            code=StorageError.code,
        ) from error
    return sorted(files.keys() - set(existing)), existing


def _create_whole(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create a folder with all files, or none: a killed run leaves a hidden one, which the next removes."""
    with staging_folder(folder.parent, f".{folder.name}.new-") as place:
        staged = place / folder.name
        staged.mkdir()
        _write_all(staged, files)
        staged.rename(folder)


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        _write_new(folder / name, content)
    (folder / "models").mkdir(exist_ok=True)


def _write_new(file: Path, content: bytes) -> None:
    """Write a file that does not exist; add missing lines to a .gitignore, and keep any other file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_bytes(content)
    elif file.name == _IGNORED:
        existing = _existing_text(file)
        missing = [line for line in content.decode().splitlines() if line not in existing.splitlines()]
        newline = "\r\n" if "\r\n" in existing else "\n"
        lines = [existing.rstrip("\r\n"), *missing] if existing.strip() else missing
        write_text_atomically(file, newline.join(lines) + newline)


class PinChange(NamedTuple):
    """What pinning a version changed."""

    previous: str
    """The version that was pinned before."""
    files: list[str]
    """Names of the files that changed."""
    removed: list[str]
    """Packages that the locks no longer name."""


def pin_this_version(project: Project) -> PinChange:
    """Pin the running version in an existing repository.

    Changes the version in the requirements and writes the locks. All other files are the user's.
    """
    if is_source_tree(project):
        raise NotApplicableError(
            "this is tritonstack's own repository",
            remedy="run it in a repository that `tritonstack init` created",
        )
    file = project.root / _REQUIREMENTS
    text = _existing_text(file)
    version = running_version()
    previous = _PIN.search(text)
    if previous is None:
        raise NotApplicableError(
            f"{file.name}: no line pins tritonstack", remedy=f"add the line `tritonstack[cdk,cli]=={version}`"
        )
    texts = _locks()
    if _NAMES_CONSTRAINTS.search(text):
        texts[_CONSTRAINTS] = _without_hashes(texts[_LOCAL_LOCK])
    removed = {
        package
        for name, new in texts.items()
        for package in _packages(_existing_text(project.root / name)) - _packages(new)
    }
    for name in (_REQUIREMENTS, _LOCAL_REQUIREMENTS):
        if own := _existing_text(project.root / name):
            texts[name] = _PIN.sub(lambda pin: pin[1] + version, own)
    files = [name for name, new in texts.items() if write_text_atomically(project.root / name, new)]
    return PinChange(previous[2], files, sorted(removed))


def _existing_text(file: Path) -> str:
    """Return the text of a file with its line endings; an empty text if it does not exist."""
    return file.read_bytes().decode() if file.is_file() else ""


def _contents(name: str, example: str | None, *, has_readme: bool) -> dict[str, bytes]:
    """Return the files of a new repository by name; those of an example replace the template's."""
    files = {file: text.encode() for file, text in _texts(name)}
    if example is None:
        return files
    added = dict(_example_files(_example_folders()[example]))
    tutorial = added.pop(_README, None)
    if tutorial is not None:
        both = tutorial + b"\n" + re.sub(rb"^# .*", b"## This repository", files[_README])
        added |= {TUTORIAL: tutorial} if has_readme else {_README: both}
        added[_IGNORED] = files[_IGNORED] + _EXAMPLE_IGNORES.encode()
    return {**files, **added}


def _example_folders() -> dict[str, Path]:
    """Return the folders of the examples by name: the smallest is here, the others have a tutorial each."""
    folders = [*(FOLDER / "examples").iterdir(), *shipped("examples").iterdir()]
    return {folder.name: folder for folder in folders if (folder / "environments").is_dir()}


def _example_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an example, without what running it in its folder has generated."""
    for file in sorted(folder.rglob("*")):
        parts = file.relative_to(folder).parts
        generated = any(part.startswith(".") or part in {"__pycache__", _WEIGHTS, _EXPORTS} for part in parts)
        if file.is_file() and not generated and not file.name.endswith(LOCK_SUFFIX):
            yield "/".join(parts), file.read_bytes()


def _texts(name: str) -> Iterator[tuple[str, str]]:
    values = {"@NAME@": _repository_name(name), "@VERSION@": running_version()}
    folder = FOLDER / "files"
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            for key, value in values.items():
                text = text.replace(key, value)
            parts = [_NAMES.get(part, part) for part in file.relative_to(folder).parts]
            yield "/".join(parts), text
    for file in sorted(shipped(WORKFLOWS).glob("*.yml")):
        if file.name not in _OWN_WORKFLOWS:
            yield f"{WORKFLOWS}/{file.name}", file.read_text(encoding="utf-8")
    settings = read_json(shipped(MARKER))
    yield MARKER, json.dumps({**settings, "app": APP}, indent=2) + "\n"
    yield from _locks().items()


def _repository_name(folder: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder).strip("-.") or "models"


def _locks() -> dict[str, str]:
    """Return the locks of a repository: every package that tritonstack needs, with its hashes."""
    return {lock: "\n".join([*_HEADER, *_locked(names)]) + "\n" for lock, names in _LOCKS.items()}


def _locked(names: Iterable[str]) -> list[str]:
    """Return the locked packages of several files in the wheel, without their comments."""
    lines = [line for name in names for line in shipped(name).read_text(encoding="utf-8").splitlines()]
    packages = re.split(r"\n(?=\S)", "\n".join(line for line in lines if not line.startswith("#")))
    return sorted(packages)


def _without_hashes(lock: str) -> str:
    return re.sub(r" \\\n\s+--hash=\S+", "", lock)


def _packages(lock: str) -> set[str]:
    return set(_DISTRIBUTION.findall(lock))

"""The one layout of a Triton repository that both of SageMaker's hosting modes serve as it is meant.

Single-model hosting loads the folder it is told to; multi-model hosting picks a folder by itself. Both load
the same thing only if there is one model folder, or one ensemble together with its parts and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.archive import is_safe_name
from model_build.errors import LayoutError
from model_build.repository.config import CONFIG_NAME, read_config

# What the multi-model front end looks for in the text of a configuration.
ENSEMBLE_TEXT = re.compile(r'platform:\s*"ensemble"')
MAX_FOLDERS = 5


def check_layout(repository: Path) -> str:
    """The folder that both hosting modes load, or LayoutError with everything that is wrong."""
    faults = list(_faults_of_names(repository))
    if (repository / CONFIG_NAME).exists():
        faults.append(f"{CONFIG_NAME} lies at the top, which single-model hosting refuses")
    folders = sorted(entry for entry in repository.iterdir() if entry.is_dir())
    configs = {folder.name: config for folder in folders if (config := _config(folder, faults)) is not None}
    ensembles = [folder.name for folder in folders if _is_seen_as_ensemble(folder)]
    faults += _faults_of_models(repository, configs)
    faults += _faults_of_choice([folder.name for folder in folders], ensembles, configs)
    if faults:
        raise LayoutError(f"{repository} cannot be hosted:\n" + "\n".join(f"  {fault}" for fault in faults))
    return ensembles[0] if ensembles else folders[0].name


def _faults_of_names(repository: Path) -> Iterator[str]:
    for path in sorted(repository.rglob("*")):
        name = path.relative_to(repository).as_posix()
        if not is_safe_name(name):
            yield f"{name!r}: only letters, digits, '.', '_', '-' and '/' are safe in a name"
        if path.is_symlink():
            yield f"{name} is a link"


def _config(folder: Path, faults: list[str]) -> Any | None:
    try:
        return read_config(folder / CONFIG_NAME)
    except FileNotFoundError:
        faults.append(f"{folder.name} has no {CONFIG_NAME}")
    except text_format.ParseError as error:
        faults.append(f"{folder.name}/{CONFIG_NAME}: {error}")
    return None


def _is_seen_as_ensemble(folder: Path) -> bool:
    file = folder / CONFIG_NAME
    return file.is_file() and bool(ENSEMBLE_TEXT.search(file.read_text(encoding="utf-8")))


def _faults_of_models(repository: Path, configs: dict[str, Any]) -> Iterator[str]:
    for name, config in configs.items():
        if config.name != name:
            yield f"{name}/{CONFIG_NAME} names the model {config.name!r}, not {name!r}"
        versions = [entry for entry in (repository / name).iterdir() if entry.name.isdecimal()]
        if not any(any(version.iterdir()) for version in versions if version.is_dir()):
            yield f"{name} has no numeric version folder with a file in it"


def _faults_of_choice(folders: list[str], ensembles: list[str], configs: dict[str, Any]) -> Iterator[str]:
    if not folders:
        yield "there is no model folder"
    elif len(ensembles) > 1:
        yield f"there is more than one ensemble: {', '.join(ensembles)}"
    elif not ensembles and len(folders) > 1:
        yield f"there are {len(folders)} model folders and no ensemble that joins them: {', '.join(folders)}"
    elif ensembles and ensembles[0] in configs:
        parts = {step.model_name for step in configs[ensembles[0]].ensemble_scheduling.step}
        for name in sorted(parts - set(folders)):
            yield f"the ensemble {ensembles[0]} needs {name}, which is not there"
        for name in sorted(set(folders) - parts - {ensembles[0]}):
            yield f"{name} is no part of the ensemble {ensembles[0]}"
    if len(folders) > MAX_FOLDERS:
        yield f"there are {len(folders)} folders; multi-model hosting looks at {MAX_FOLDERS}"

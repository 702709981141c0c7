"""The one layout of a Triton repository that both of SageMaker's hosting modes serve as it is meant.

Single-model hosting loads the folder it is told to; multi-model hosting picks a folder by itself, and an
archive cannot tell it which. Both load the same thing only if there is one model folder, or one ensemble
together with its parts and nothing else. What each of them trips over stands with the rule below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from model_build.errors import LayoutError
from model_build.repository.config import CONFIG_NAME, MODEL_FILES, read_config
from model_build.store.archive import is_safe_name

ENSEMBLE_TEXT = re.compile(r'platform:\s*"ensemble"', re.ASCII)
"""What the multi-model front end looks for in the text of a configuration, comments and all."""

VERSION = re.compile(r"[1-9][0-9]{0,17}")
SEEN_AS_VERSION = re.compile(r"[-+]?[0-9]")


def check_layout(repository: Path, *, generates: bool = False) -> str:
    """The folder that both hosting modes load, or LayoutError with everything that is wrong.

    `generates` says that the endpoint asks with generate, which takes answers in several parts.
    """
    faults = list(_faults_of_names(repository))
    folders = sorted(entry for entry in repository.iterdir() if entry.is_dir())
    configs = {folder.name: config for folder in folders if (config := _config(folder, faults)) is not None}
    for name, config in configs.items():
        faults += _faults_of_model(repository / name, config)
        if config.model_transaction_policy.decoupled and not generates:
            faults.append(f"{name} is decoupled: it answers in several parts, and /invocations takes one")
    seen = [folder.name for folder in folders if _is_seen_as_ensemble(folder)]
    faults += _faults_of_choice([folder.name for folder in folders], seen, configs)
    if faults:
        raise LayoutError(f"{repository} cannot be hosted:\n" + "\n".join(f"  {fault}" for fault in faults))
    return seen[0] if seen else folders[0].name


def _faults_of_names(repository: Path) -> Iterator[str]:
    if (repository / CONFIG_NAME).exists():
        # Multi-model hosting would load it as the one model; `serve` ends with 1.
        yield f"{CONFIG_NAME} lies at the top, which single-model hosting refuses"
    for path in sorted(repository.rglob("*")):
        name = path.relative_to(repository).as_posix()
        if not is_safe_name(name):
            # The launcher of Python models gives folders to a shell, which runs what stands in $( ).
            yield f"{name!r}: only letters, digits, '.', '_', '-' and '/' are safe in a name"
        if path.is_symlink():
            yield f"{name} is a link"
        elif not (path.is_dir() or path.is_file()):
            yield f"{name} is neither a file nor a folder"


def _config(folder: Path, faults: list[str]) -> Any | None:
    try:
        return read_config(folder / CONFIG_NAME)
    except FileNotFoundError:
        faults.append(f"{folder.name} has no {CONFIG_NAME}")
    except text_format.ParseError as error:
        faults.append(f"{folder.name}/{CONFIG_NAME}:{error}")
    except UnicodeDecodeError:
        faults.append(f"{folder.name}/{CONFIG_NAME} is no text in UTF-8")
    return None


def _is_seen_as_ensemble(folder: Path) -> bool:
    file = folder / CONFIG_NAME
    return file.is_file() and bool(ENSEMBLE_TEXT.search(file.read_text(encoding="utf-8", errors="replace")))


def _is_ensemble(config: Any) -> bool:
    return bool(config.platform == "ensemble" or config.HasField("ensemble_scheduling"))


def _faults_of_model(folder: Path, config: Any) -> Iterator[str]:
    name = folder.name
    if config.name and config.name != name:
        yield f"{name}/{CONFIG_NAME} names the model {config.name!r}, not {name!r}"
    if config.backend == "ensemble":
        yield f'{name}/{CONFIG_NAME} says backend: "ensemble"; Triton wants platform: "ensemble"'
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    versions = [entry for entry in folders if VERSION.fullmatch(entry.name)]
    for entry in folders:
        if entry not in versions and SEEN_AS_VERSION.match(entry.name):
            # Triton reads the number that a name begins with, looks for a folder named by it alone, and ends
            # where the number is too large.
            yield f"{name}/{entry.name} is taken for a version, and those are named by plain numbers from 1"
    filled = [version for version in versions if any(version.iterdir())]
    if not filled:
        # Packing may lose an empty folder, and without one every model, an ensemble too, is refused.
        yield f"{name} has no numeric version folder with a file in it"
    for version in versions if filled else ():
        if version not in filled:
            # A Python model without its code does not fail: its load never ends.
            yield f"{name}/{version.name} is an empty version, which would be loaded all the same"
    for version in versions:
        yield from _faults_of_version(version, config)
    yield from _faults_of_policy(name, config, {int(version.name) for version in versions})


def _faults_of_version(version: Path, config: Any) -> Iterator[str]:
    wanted = config.default_model_filename or MODEL_FILES.get(config.backend)
    if wanted is None or config.cc_model_filenames or not any(version.iterdir()):
        return
    if not (version / wanted).exists():
        yield f"{version.parent.name}/{version.name} has no {wanted}"


def _faults_of_policy(name: str, config: Any, versions: set[int]) -> Iterator[str]:
    for version in sorted(set(config.version_policy.specific.versions) - versions):
        yield f"{name}/{CONFIG_NAME} serves version {version}, which is not there"


def _faults_of_choice(folders: list[str], seen: list[str], configs: Mapping[str, Any]) -> Iterator[str]:
    ensembles = [name for name, config in configs.items() if _is_ensemble(config)]
    for name in sorted(set(seen) - set(ensembles)):
        if name in configs:
            yield f'{name} is taken for an ensemble: its {CONFIG_NAME} holds the text platform: "ensemble"'
    for name in sorted(set(ensembles) - set(seen)):
        yield (
            f"{name} is not seen as an ensemble by multi-model hosting: "
            f'its {CONFIG_NAME} has to read platform: "ensemble", with no blank before the colon'
        )
    if not folders:
        yield "there is no model folder"
    elif len(ensembles) > 1:
        yield f"there is more than one ensemble: {', '.join(ensembles)}"
    elif ensembles:
        yield from _faults_of_parts(folders, ensembles[0], configs)
    elif len(folders) > 1:
        # The last folder in directory order is loaded, which is neither alphabetical nor as they were packed.
        yield f"there are {len(folders)} model folders and no ensemble that joins them: {', '.join(folders)}"


def _faults_of_parts(folders: list[str], ensemble: str, configs: Mapping[str, Any]) -> Iterator[str]:
    parts = {step.model_name for step in configs[ensemble].ensemble_scheduling.step}
    for name in sorted(parts - set(folders)):
        yield f"the ensemble {ensemble} needs {name}, which is not there"
    for name in sorted(set(folders) - parts - {ensemble}):
        # Models that Python code calls are no dependencies, either: nothing would load them.
        yield f"{name} is no part of the ensemble {ensemble}, so that neither hosting mode loads it"

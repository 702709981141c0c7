"""Check that both of SageMaker's hosting modes load a repository in the same way.

Single-model hosting loads a named folder; multi-model hosting chooses one itself. Both choose the same only
if there is one model folder, or one ensemble with its parts and nothing else. Each rule below states the
failure it prevents.
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
"""Text that the multi-model front end searches for in a configuration, comments included."""

VERSION = re.compile(r"[1-9][0-9]{0,17}")
SEEN_AS_VERSION = re.compile(r"[-+]?[0-9]")


def check_layout(repository: Path, *, generates: bool = False) -> str:
    """Return the folder that both hosting modes load; raise LayoutError with all violations.

    `generates` allows decoupled models, for endpoints that use generate.
    """
    violations = list(_violations_of_names(repository))
    folders = sorted(entry for entry in repository.iterdir() if entry.is_dir())
    configs = {
        folder.name: config for folder in folders if (config := _config(folder, violations)) is not None
    }
    for name, config in configs.items():
        violations += _violations_of_model(repository / name, config)
        if config.model_transaction_policy.decoupled and not generates:
            violations.append(
                f"{name} is decoupled: it returns several answers, and /invocations supports one"
            )
    seen = [folder.name for folder in folders if _is_seen_as_ensemble(folder)]
    violations += _violations_of_choice([folder.name for folder in folders], seen, configs)
    if violations:
        raise LayoutError(
            f"{repository} cannot be hosted:\n" + "\n".join(f"  {violation}" for violation in violations),
            remedy="give each model a folder of its own, <model>/config.pbtxt and <model>/1/<files>, and "
            "remove other files and folders",
        )
    return seen[0] if seen else folders[0].name


def _violations_of_names(repository: Path) -> Iterator[str]:
    if (repository / CONFIG_NAME).exists():
        # Multi-model hosting would load it as the one model; `serve` exits with 1.
        yield f"{CONFIG_NAME} at the top level is rejected by single-model hosting"
    for path in sorted(repository.rglob("*")):
        name = path.relative_to(repository).as_posix()
        if not is_safe_name(name):
            # The Python backend's launcher passes folder names to a shell, which expands $( ).
            yield f"{name!r}: unsafe name; allowed are letters, digits, '.', '_', '-', and '/'"
        if path.is_symlink():
            yield f"{name} is a link"
        elif not (path.is_dir() or path.is_file()):
            yield f"{name} is not a file or folder"


def _config(folder: Path, violations: list[str]) -> Any | None:
    try:
        return read_config(folder / CONFIG_NAME)
    except FileNotFoundError:
        violations.append(f"{folder.name} has no {CONFIG_NAME}")
    except text_format.ParseError as error:
        violations.append(f"{folder.name}/{CONFIG_NAME}:{error}")
    except UnicodeDecodeError:
        violations.append(f"{folder.name}/{CONFIG_NAME} is not UTF-8 text")
    return None


def _is_seen_as_ensemble(folder: Path) -> bool:
    file = folder / CONFIG_NAME
    return file.is_file() and bool(ENSEMBLE_TEXT.search(file.read_text(encoding="utf-8", errors="replace")))


def _is_ensemble(config: Any) -> bool:
    return bool(config.platform == "ensemble" or config.HasField("ensemble_scheduling"))


def _violations_of_model(folder: Path, config: Any) -> Iterator[str]:
    name = folder.name
    if config.name and config.name != name:
        yield f"{name}/{CONFIG_NAME}: expected name {name!r}, got {config.name!r}"
    if config.backend == "ensemble":
        yield f'{name}/{CONFIG_NAME} has backend: "ensemble"; Triton needs platform: "ensemble"'
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    versions = [entry for entry in folders if VERSION.fullmatch(entry.name)]
    for entry in folders:
        if entry not in versions and SEEN_AS_VERSION.match(entry.name):
            # Triton parses a name's leading number, looks for the folder of that number, and exits if the
            # number is too large.
            yield f"{name}/{entry.name} starts like a version; versions are plain numbers from 1"
    filled = [version for version in versions if any(version.iterdir())]
    if not filled:
        # Packing may lose empty folders; Triton rejects any model, ensembles included, without one.
        yield f"{name} has no numeric version folder with a file in it"
    for version in versions if filled else ():
        if version not in filled:
            # A Python model without code does not fail: loading never ends.
            yield f"{name}/{version.name} is an empty version, which Triton would load"
    for version in versions:
        yield from _violations_of_version(version, config)
    yield from _violations_of_policy(name, config, {int(version.name) for version in versions})


def _violations_of_version(version: Path, config: Any) -> Iterator[str]:
    file_name = config.default_model_filename or MODEL_FILES.get(config.backend)
    if file_name is None or config.cc_model_filenames or not any(version.iterdir()):
        return
    if not (version / file_name).exists():
        yield f"{version.parent.name}/{version.name} has no {file_name}"


def _violations_of_policy(name: str, config: Any, versions: set[int]) -> Iterator[str]:
    for version in sorted(set(config.version_policy.specific.versions) - versions):
        yield f"{name}/{CONFIG_NAME} serves version {version}, which is missing"


def _violations_of_choice(folders: list[str], seen: list[str], configs: Mapping[str, Any]) -> Iterator[str]:
    ensembles = [name for name, config in configs.items() if _is_ensemble(config)]
    for name in sorted(set(seen) - set(ensembles)):
        if name in configs:
            yield f'{name} looks like an ensemble: its {CONFIG_NAME} contains the text platform: "ensemble"'
    for name in sorted(set(ensembles) - set(seen)):
        yield (
            f"multi-model hosting does not recognize the ensemble {name}: "
            f'its {CONFIG_NAME} must contain platform: "ensemble", with no space before the colon'
        )
    if not folders:
        yield "no model folder"
    elif len(ensembles) > 1:
        yield f"expected at most one ensemble, got {', '.join(ensembles)}"
    elif ensembles:
        yield from _violations_of_parts(folders, ensembles[0], configs)
    elif len(folders) > 1:
        # The last folder in directory order is loaded, which is neither alphabetical nor packing order.
        yield f"got {len(folders)} model folders without an ensemble: {', '.join(folders)}"


def _violations_of_parts(folders: list[str], ensemble: str, configs: Mapping[str, Any]) -> Iterator[str]:
    parts = {step.model_name for step in configs[ensemble].ensemble_scheduling.step}
    for name in sorted(parts - set(folders)):
        yield f"the ensemble {ensemble} needs {name}, which is missing"
    for name in sorted(set(folders) - parts - {ensemble}):
        # Models called from Python code are not dependencies either: nothing would load them.
        yield f"{name} is not part of the ensemble {ensemble}, so neither hosting mode loads it"

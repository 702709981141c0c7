"""Check that both of SageMaker's hosting modes load a repository in the same way.

Single-model hosting loads a named folder; multi-model hosting chooses one itself. Both choose the same only
if there is one model folder, or one ensemble with its parts and nothing else. Each rule below states the
failure it prevents.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class LayoutViolation:
    """A broken rule."""

    rule: str
    """The name of the rule, such as `no_version`."""
    path: str
    """The file or folder in the repository; empty for the repository itself."""
    message: str
    """What is wrong, with the path."""
    field: str = ""
    """The field of config.pbtxt."""


def check_layout(repository: Path, *, decoupled: bool = False) -> str:
    """Return the folder that both hosting modes load; raise LayoutError with all violations.

    `decoupled` allows models that send several responses, for endpoints that use generate.
    """
    violations = list(name_violations(repository))
    folders = sorted(entry for entry in repository.iterdir() if entry.is_dir())
    configs = {
        folder.name: config for folder in folders if (config := _config(folder, violations)) is not None
    }
    for name, config in configs.items():
        violations += model_violations(repository / name, config)
        if config.model_transaction_policy.decoupled and not decoupled:
            violations.append(
                LayoutViolation(
                    "decoupled",
                    f"{name}/{CONFIG_NAME}",
                    f"{name} is decoupled: it returns several answers, and /invocations supports one",
                )
            )
    ensembles = [folder.name for folder in folders if is_seen_as_ensemble(folder)]
    violations += choice_violations([folder.name for folder in folders], ensembles, configs)
    if violations:
        raise LayoutError(
            f"{repository} cannot be hosted:\n"
            + "\n".join(f"  {violation.message}" for violation in violations),
            remedy="give each model a folder of its own, <model>/config.pbtxt and <model>/1/<files>, and "
            "remove other files and folders",
        )
    return ensembles[0] if ensembles else folders[0].name


def name_violations(repository: Path) -> Iterator[LayoutViolation]:
    """Yield a configuration at the top level, unsafe names, links, and special files."""
    if (repository / CONFIG_NAME).exists():
        # Multi-model hosting would load it as the one model; `serve` exits with 1.
        yield LayoutViolation(
            "flat", CONFIG_NAME, f"{CONFIG_NAME} at the top level is rejected by single-model hosting"
        )
    for path in sorted(repository.rglob("*")):
        name = path.relative_to(repository).as_posix()
        if not is_safe_name(name):
            # The Python backend's launcher passes folder names to a shell, which expands $( ).
            allowed = "letters, digits, '.', '_', '-', and '/'"
            yield LayoutViolation("name", name, f"{name!r}: unsafe name; allowed are {allowed}")
        if path.is_symlink():
            target, top = os.path.realpath(path), os.path.realpath(repository)
            outside = "" if Path(target).is_relative_to(top) else ", outside the repository"
            yield LayoutViolation("link", name, f"{name} is a link to {os.readlink(path)}{outside}")
        elif not (path.is_dir() or path.is_file()):
            yield LayoutViolation("special", name, f"{name} is not a file or folder")


def _config(folder: Path, violations: list[LayoutViolation]) -> Any | None:
    path = f"{folder.name}/{CONFIG_NAME}"
    try:
        return read_config(folder / CONFIG_NAME)
    except FileNotFoundError:
        violations.append(no_config(folder))
    except text_format.ParseError as error:
        violations.append(LayoutViolation("syntax", path, f"{path}:{error}"))
    except UnicodeDecodeError:
        violations.append(LayoutViolation("syntax", path, f"{path} is not UTF-8 text"))
    return None


def no_config(folder: Path) -> LayoutViolation:
    """Return the violation of a folder without configuration."""
    return LayoutViolation("no_config", folder.name, f"{folder.name} has no {CONFIG_NAME}")


def is_seen_as_ensemble(folder: Path) -> bool:
    """Return whether multi-model hosting takes a folder for an ensemble."""
    file = folder / CONFIG_NAME
    return file.is_file() and bool(ENSEMBLE_TEXT.search(file.read_text(encoding="utf-8", errors="replace")))


def is_ensemble(config: Any) -> bool:
    """Return whether Triton takes a model for an ensemble."""
    return bool(config.platform == "ensemble" or config.HasField("ensemble_scheduling"))


def model_violations(folder: Path, config: Any) -> Iterator[LayoutViolation]:
    """Yield what is wrong with one model's name, versions, and files."""
    name = folder.name
    path = f"{name}/{CONFIG_NAME}"
    if config.name and config.name != name:
        message = f"{path}: expected name {name!r}, got {config.name!r}"
        yield LayoutViolation("folder_name", path, message, "name")
    if config.backend == "ensemble":
        message = f'{path} has backend: "ensemble"; Triton needs platform: "ensemble"'
        yield LayoutViolation("backend_ensemble", path, message, "backend")
    folders = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    versions = [entry for entry in folders if VERSION.fullmatch(entry.name)]
    for entry in folders:
        if entry not in versions and SEEN_AS_VERSION.match(entry.name):
            # Triton parses a name's leading number, looks for the folder of that number, and exits if the
            # number is too large.
            inner = f"{name}/{entry.name}"
            message = f"{inner} starts like a version; versions are plain numbers from 1"
            yield LayoutViolation("version_like", inner, message)
    filled = [version for version in versions if any(version.iterdir())]
    if not filled:
        # Packing may lose empty folders; Triton rejects any model, ensembles included, without one.
        yield LayoutViolation("no_version", name, f"{name} has no numeric version folder with a file in it")
    for version in versions if filled else ():
        if version not in filled:
            # A Python model without code does not fail: loading never ends.
            inner = f"{name}/{version.name}"
            message = f"{inner} is an empty version, which Triton would load"
            yield LayoutViolation("empty_version", inner, message)
    for version in versions:
        yield from _violations_of_version(version, config)
    yield from _violations_of_policy(name, config, {int(version.name) for version in versions})


def _violations_of_version(version: Path, config: Any) -> Iterator[LayoutViolation]:
    file_name = config.default_model_filename or MODEL_FILES.get(config.backend)
    if file_name is None or config.cc_model_filenames or not any(version.iterdir()):
        return
    if not (version / file_name).exists():
        inner = f"{version.parent.name}/{version.name}"
        yield LayoutViolation("no_file", inner, f"{inner} has no {file_name}")


def _violations_of_policy(name: str, config: Any, versions: set[int]) -> Iterator[LayoutViolation]:
    path = f"{name}/{CONFIG_NAME}"
    for version in sorted(set(config.version_policy.specific.versions) - versions):
        message = f"{path} serves version {version}, which is missing"
        yield LayoutViolation("no_file", path, message, "version_policy")


def choice_violations(
    folders: list[str], recognized: list[str], configs: Mapping[str, Any]
) -> Iterator[LayoutViolation]:
    """Yield why the hosting modes load another model than intended, or none.

    `recognized` are the folders that multi-model hosting takes for ensembles. An ensemble that it does not
    recognize may be a step of the one that it does.
    """
    inner = parts_of(recognized[0], configs) if len(recognized) == 1 else []
    ensembles = [name for name, config in configs.items() if is_ensemble(config) and name not in inner]
    for name in sorted(set(recognized) - set(ensembles)):
        if name in configs:
            yield LayoutViolation(
                "looks_ensemble",
                f"{name}/{CONFIG_NAME}",
                f'{name} looks like an ensemble: its {CONFIG_NAME} contains the text platform: "ensemble"',
            )
    for name in sorted(set(ensembles) - set(recognized)):
        yield LayoutViolation(
            "hidden_ensemble",
            f"{name}/{CONFIG_NAME}",
            f"multi-model hosting does not recognize the ensemble {name}: "
            f'its {CONFIG_NAME} must contain platform: "ensemble", with no space before the colon',
            "platform",
        )
    if not folders:
        yield LayoutViolation("no_model", "", "no model folder")
    elif len(ensembles) > 1:
        yield LayoutViolation(
            "many_ensembles", "", f"expected at most one ensemble, got {', '.join(ensembles)}"
        )
    elif ensembles:
        yield from _violations_of_parts(folders, ensembles[0], configs)
    elif len(folders) > 1:
        # The last folder in directory order is loaded, which is neither alphabetical nor packing order.
        yield LayoutViolation(
            "many_models",
            "",
            f"got {len(folders)} model folders without an ensemble: {', '.join(folders)}",
        )


def _violations_of_parts(
    folders: list[str], ensemble: str, configs: Mapping[str, Any]
) -> Iterator[LayoutViolation]:
    parts = set(parts_of(ensemble, configs))
    for name in sorted(parts - set(folders)):
        message = f"the ensemble {ensemble} needs {name}, which is missing"
        yield LayoutViolation("missing_part", f"{ensemble}/{CONFIG_NAME}", message, "ensemble_scheduling")
    for name in sorted(set(folders) - parts - {ensemble}):
        # Models called from Python code are not dependencies either: nothing would load them.
        message = f"{name} is not part of the ensemble {ensemble}, so neither hosting mode loads it"
        yield LayoutViolation("not_part", name, message)


def parts_of(ensemble: str, configs: Mapping[str, Any]) -> list[str]:
    """Return the models that Triton loads with an ensemble: its steps, and those of ensembles among them."""
    parts = [ensemble]
    for name in parts:
        steps = configs[name].ensemble_scheduling.step if name in configs else ()
        parts += [step for step in dict.fromkeys(step.model_name for step in steps) if step not in parts]
    return parts[1:]


def outer_ensembles(configs: Mapping[str, Any]) -> list[str]:
    """Return the ensembles that are no parts of others."""
    inner = {part for name in configs for part in parts_of(name, configs)}
    return [name for name, config in configs.items() if is_ensemble(config) and name not in inner]

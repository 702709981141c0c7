"""Rules of SageMaker's hosting modes: which folder is loaded, and what the archive must look like."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from model_build.errors import LayoutError, ModelConfigError, SurprisingSettingError
from model_build.linting.backends import COMPLETED, completed
from model_build.linting.findings import Finding, LintOptions, ModelFolder, Severity, in_file, is_small
from model_build.model_files import foreign_format
from model_build.repository.config import CONFIG_NAME, line_of, model_config_schema
from model_build.repository.layout import (
    LayoutViolation,
    choice_violations,
    is_ensemble,
    is_seen_as_ensemble,
    model_violations,
    name_violations,
    no_config,
)
from tritonstack.base.error_kinds import CompositionError, EndpointMismatchError
from tritonstack.base.files import folder_bytes
from tritonstack.facts.container_variables import DEFAULT_MODEL_NAME

TRACES = frozenset(
    {
        ".DS_Store",
        ".git",
        ".gitattributes",
        ".gitignore",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".venv",
        ".vscode",
        "Thumbs.db",
        "__MACOSX",
        "__pycache__",
        "desktop.ini",
    }
)
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_SIGN_OF_MAC = "._"
LARGE_BYTES = 10 << 30
"""A larger repository may take minutes to unpack, with gzip at about 100 MB/s."""


def is_trace(name: str) -> bool:
    """Return whether a tool or an operating system left a file."""
    return name in TRACES or name.startswith(_SIGN_OF_MAC)


def trace_findings(root: Path, shown: Path, *, chosen: bool) -> Iterator[Finding]:
    """Yield traces of tools; a folder at the top level counts as a model, unless one is `chosen`."""
    for folder, folders, files in os.walk(root):
        place = Path(folder).relative_to(root)
        for name in sorted([*folders, *files]):
            if not is_trace(name):
                continue
            if folder == str(root) and name in folders and not chosen:
                yield in_file(
                    "error",
                    LayoutError.code,
                    shown / name,
                    f"the folder {name} counts as a model folder: a single-model endpoint starts only with "
                    "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, and a multi-model endpoint may load this folder",
                    f"pack without it: `tar --exclude {name} ...`",
                )
            else:
                yield in_file(
                    "warning",
                    LayoutError.code,
                    shown / place / name,
                    "a trace of a tool, which no model needs",
                    f"pack without it: `tar --exclude {name} ...`"
                    + ("; on macOS, set COPYFILE_DISABLE=1" if name.startswith(_SIGN_OF_MAC) else ""),
                )
        folders[:] = [name for name in folders if not is_trace(name)]


def size_findings(root: Path, shown: Path) -> Iterator[Finding]:
    """Yield a repository that takes long to download and unpack."""
    size = folder_bytes(root)
    if size > LARGE_BYTES:
        yield in_file(
            "warning",
            SurprisingSettingError.code,
            shown,
            f"{size >> 30} GiB: each instance downloads and unpacks them before it starts",
            "set ModelDataDownloadTimeoutInSeconds (up to 3600) and VolumeSizeInGB of the production "
            "variant, or deploy uncompressed model data",
        )


def pickle_findings(root: Path, shown: Path) -> Iterator[Finding]:
    """Yield pickles, which run code and depend on versions."""
    for file in sorted(root.rglob("*")):
        if file.suffix.lower() in _PICKLES and file.is_file():
            yield in_file(
                "warning",
                SurprisingSettingError.code,
                shown / file.relative_to(root),
                "a pickle: loading it can run any code, and needs the versions of Python and of the "
                "libraries that wrote it",
                "save weights as safetensors or ONNX, or pin the same versions in the model's environment",
            )


_LAYOUT, _MODE = LayoutError.code, EndpointMismatchError.code
_PARTS = CompositionError.code
RULES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "flat": (_LAYOUT, "move everything into a folder with the model's name"),
        "name": (_LAYOUT, "rename it: Triton passes names to a shell"),
        "link": (_LAYOUT, "replace links with copies of their targets: `cp -RL <repository> <copy>`"),
        "special": (_LAYOUT, "remove it"),
        "no_config": (_LAYOUT, f"add a {CONFIG_NAME}, or remove the folder"),
        "folder_name": (ModelConfigError.code, "rename the folder, or remove `name`"),
        "backend_ensemble": (_PARTS, 'set `platform: "ensemble"` and remove `backend`'),
        "version_like": (_LAYOUT, "rename it to a plain number from 1, or move it out"),
        "no_version": (_LAYOUT, "put the model's files into a folder named 1"),
        "empty_version": (_LAYOUT, "add the model's files, or remove the folder"),
        "no_file": (_LAYOUT, "add it, or correct the configuration"),
        "looks_ensemble": (_MODE, 'remove the text `platform: "ensemble"` from its comments'),
        "hidden_ensemble": (_MODE, 'write `platform: "ensemble"` exactly like this'),
        "no_model": (
            _LAYOUT,
            f"add <model>/{CONFIG_NAME} and <model>/1/<files>; `tritonstack import` takes MLflow models",
        ),
        "many_ensembles": (
            _MODE,
            "pack each ensemble with its parts into an archive of its own; make the steps of a nested "
            "ensemble steps of the outer one",
        ),
        "missing_part": (_PARTS, "add its folder, or correct `model_name`"),
        "not_part": (
            _MODE,
            "remove it; if Python code calls it, set SAGEMAKER_TRITON_ADDITIONAL_ARGS=--load-model=<name> "
            "on a single-model endpoint",
        ),
        "many_models": (
            _MODE,
            "pack each model into an archive of its own; or name the model of a single-model endpoint in "
            f"{DEFAULT_MODEL_NAME} and pass it as --default-model",
        ),
    }
)
"""Code and remedy of each rule of the layout."""
_WARNINGS = {"not_part"}
"""Rules whose violation is no error."""
_MULTI_MODEL_ONLY = {"looks_ensemble", "hidden_ensemble", "many_ensembles", "many_models"}
"""Rules that do not concern single-model endpoints with SAGEMAKER_TRITON_DEFAULT_MODEL_NAME."""


def leading_folder(root: Path) -> Path | None:
    """Return the folder that holds the repository if it was packed with folders above it."""
    repositories = set()
    for config in root.glob(f"*/**/{CONFIG_NAME}"):
        *above, model = config.relative_to(root).parts[:-1]
        if not any(is_trace(name) or name.isdecimal() for name in (*above, model)):
            repositories.add(root.joinpath(*above))
    if len(repositories) != 1 or root in repositories or any(root.glob("*/[0-9]*/")):
        return None  # none, several, or models at the top level
    return repositories.pop()


def leading_finding(folder: Path, shown: Path) -> Finding:
    """Return the finding about a repository below leading folders; `folder` is relative to the top level."""
    return in_file(
        "error",
        _LAYOUT,
        shown,
        f"the repository is below the folder {folder}; SageMaker expects the model folders at the top level",
        f"pack from inside: `tar -C {folder} -czf model.tar.gz .`",
    )


def name_findings(root: Path, shown: Path) -> Iterator[Finding]:
    """Yield findings about names, links, and a configuration at the top level."""
    for violation in name_violations(root):
        yield finding_of(violation, shown)


def model_findings(model: ModelFolder, shown: Path) -> Iterator[Finding]:
    """Yield findings about a model's name, versions, and files."""
    whole = completed(model.config, model.versions)
    for violation in model_violations(model.folder, whole):
        if violation.rule == "no_version" and is_ensemble(whole) and model.versions:
            # Triton accepts it.
            yield model.warning(
                f"the version folder of {model.name} is empty, and some tools drop empty folders",
                "put a file into it, such as a README.txt",
                code=LayoutError.code,
            )
        else:
            yield finding_of(violation, shown, model)
    if len(model.versions) > 1 and not model.config.HasField("version_policy"):
        names = ", ".join(version.name for version in model.versions)
        yield model.warning(
            f"versions {names}: Triton loads only the latest, {model.versions[-1].name}",
            "remove the others: SageMaker's callers cannot choose a version",
        )


def config_findings(folder: Path, shown: Path) -> Iterator[Finding]:
    """Yield the finding about a folder without configuration, unless Triton completes it."""
    from_file = _recognized(folder)
    if from_file in COMPLETED:
        yield in_file(
            "warning",
            _LAYOUT,
            shown / folder.name,
            f"{folder.name} has no {CONFIG_NAME}: Triton derives one of backend {from_file} without "
            "batching, and fails with --disable-auto-complete-config",
            f"add a {CONFIG_NAME}",
        )
        return
    foreign = foreign_format(folder) or foreign_format(folder.parent)
    if foreign is not None:
        remedy = foreign.remedy.replace(str(folder.parent), str(shown))
        yield in_file("error", _LAYOUT, shown, f"{foreign.kind}, not a Triton repository", remedy)
    else:
        yield finding_of(no_config(folder), shown)


def _recognized(folder: Path) -> str:
    model = ModelFolder(folder.name, folder, folder, model_config_schema().ModelConfig())
    return str(completed(model.config, model.versions).backend)


def choice_findings(
    root: Path, shown: Path, models: Mapping[str, ModelFolder], folders: Sequence[str], options: LintOptions
) -> Iterator[Finding]:
    """Yield findings about which model the hosting modes load."""
    if options.default_model is not None and options.default_model not in folders:
        yield in_file(
            "error",
            _MODE,
            shown,
            f"{DEFAULT_MODEL_NAME} names {options.default_model!r}, which is missing",
            f"folders: {', '.join(folders) or 'none'}",
        )
    ensembles = [
        name for name in folders if is_small(root / name / CONFIG_NAME) and is_seen_as_ensemble(root / name)
    ]
    configs = {name: model.config for name, model in models.items()}
    for violation in choice_violations(list(folders), ensembles, configs):
        finding = finding_of(violation, shown, models.get(violation.path.partition("/")[0]))
        if options.default_model is not None and violation.rule in _MULTI_MODEL_ONLY:
            finding = replace(finding, severity="warning")
        yield finding


def finding_of(violation: LayoutViolation, shown: Path, model: ModelFolder | None = None) -> Finding:
    """Return a rule's violation as a finding, with the line of its field."""
    code, remedy = RULES[violation.rule]
    severity: Severity = "warning" if violation.rule in _WARNINGS else "error"
    path = violation.path
    text = violation.message.removeprefix(path).removeprefix(":").strip() if path else violation.message
    line = line_of(model.lines, violation.field) if model and violation.field else None
    return Finding(shown / path, line, violation.field, text, remedy, code=code, severity=severity)

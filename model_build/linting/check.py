"""Check a whole repository: open it, read its models, and apply every rule."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from model_build.errors import ArchiveError, ModelConfigError, OversizedArchiveError, ResourceError
from model_build.linting.configs import config_rules
from model_build.linting.findings import Finding, LintOptions, ModelFolder, in_file, is_small
from model_build.linting.hosting import (
    choice_findings,
    config_findings,
    is_trace,
    leading_finding,
    leading_folder,
    model_findings,
    name_findings,
    pickle_findings,
    size_findings,
    trace_findings,
)
from model_build.linting.python_models import python_rules
from model_build.repository.config import CONFIG_NAME
from model_build.repository.existing import parse_file
from model_build.repository.layout import outer_ensembles, parts_of
from model_build.resources import free_space
from model_build.store.archive import unpack
from tritonstack.base.error_kinds import DamagedArtifactError, UnknownNameError
from tritonstack.base.errors import InvalidFilesError

LIMIT_BYTES = 100 << 30
"""More than any instance type loads in SageMaker's 60 minutes."""
LARGEST_RATIO = 200
"""Weights compress to a tenth at best; only archives made to fill disks compress further."""
SMALL_BYTES = 1 << 30
"""Unpacked size that any archive may have."""
LIMIT_MEMBERS = 200_000
LISTED_ENTRIES = 20
AGAIN = "if the file was cut off, copy or fetch it again; else "
PACK = (
    "pack plain files and folders: `cp -RL <repository> <copy>` replaces links with copies, then "
    "`tar -C <copy> -czf model.tar.gz .`"
)
"""GNU tar's --dereference writes hard links for equal files, and the tar of macOS has no other option."""


@dataclass(frozen=True)
class OpenedRepository:
    """A repository to read."""

    root: Path
    shown: Path
    """The path for messages."""
    findings: tuple[Finding, ...] = ()
    complete: bool = True
    """False if the archive could not be read to its end."""


@contextmanager
def open_repository(path: Path) -> Iterator[OpenedRepository]:
    """Open a folder or an archive; raise UsageError if there is neither."""
    if path.is_dir():
        yield OpenedRepository(path, path)
        return
    if not path.is_file():
        problem = "not a file or folder" if path.exists() else "file not found"
        raise UnknownNameError(f"{path}: {problem}", remedy="name a Triton repository or a model.tar.gz")
    with tempfile.TemporaryDirectory(prefix="tritonstack-") as name:
        yield _unpacked(path, Path(name))


def _unpacked(archive: Path, folder: Path) -> OpenedRepository:
    findings: list[Finding] = []

    def report(error: ArchiveError) -> None:
        findings.append(_finding(archive, error))
        if len(findings) == LISTED_ENTRIES:
            raise ArchiveError(
                f"{archive}: {LISTED_ENTRIES} entries that are not allowed; the rest is not checked",
                remedy=PACK,
            )

    allowed = min(LIMIT_BYTES, max(SMALL_BYTES, LARGEST_RATIO * archive.stat().st_size))
    free = free_space(folder)
    try:
        unpack(
            archive,
            folder,
            limit_bytes=min(allowed, free),
            limit_members=LIMIT_MEMBERS,
            on_rejected=report,
        )
    except OversizedArchiveError as error:
        if free < allowed:
            raise ResourceError(
                f"{archive} unpacks to more than the {free >> 20} MiB that are free in {folder.parent}",
                remedy="set TMPDIR to a folder on a larger disk",
            ) from error
        findings.append(_finding(archive, error))
        return OpenedRepository(folder, archive, tuple(findings), complete=False)
    except ArchiveError as error:
        findings.append(_finding(archive, error, remedy=AGAIN + PACK if _is_unreadable(error) else PACK))
        return OpenedRepository(folder, archive, tuple(findings), complete=False)
    return OpenedRepository(folder, archive, tuple(findings))


def _is_unreadable(error: ArchiveError) -> bool:
    """Return whether the archive itself cannot be read, so that its end may be missing."""
    return error.__cause__ is not None


def _finding(archive: Path, error: ArchiveError, *, remedy: str = PACK) -> Finding:
    message = error.message.removeprefix(f"{archive}").removeprefix(":").strip()
    return in_file("error", DamagedArtifactError.code, archive, message, remedy)


@dataclass(frozen=True)
class RepositoryLint:
    """The models of a repository, and what is wrong with it."""

    models: tuple[str, ...]
    entry: str | None
    """The model that endpoints load; None if it is not certain."""
    findings: tuple[Finding, ...]


def lint_repository(path: Path, options: LintOptions) -> RepositoryLint:
    """Check a folder or an archive; raise UsageError if the path is neither."""
    with open_repository(path) as opened:
        if not opened.complete:
            return RepositoryLint((), None, opened.findings)
        return lint_folder(opened.root, opened.shown, options, opened.findings)


def lint_folder(
    root: Path, shown: Path, options: LintOptions, earlier: tuple[Finding, ...] = ()
) -> RepositoryLint:
    """Check an unpacked repository; `shown` is its path for messages."""
    lint = _lint(root, shown, options)
    findings = dict.fromkeys((*earlier, *lint.findings))
    order = {"error": 0, "warning": 1}
    ordered = sorted(findings, key=lambda item: (order[item.severity], str(item.file), item.line or 0))
    return replace(lint, findings=tuple(ordered))


def _lint(root: Path, shown: Path, options: LintOptions) -> RepositoryLint:
    findings = [*pickle_findings(root, shown), *size_findings(root, shown)]
    top, top_shown = root, shown
    if (inner := leading_folder(root)) is not None:
        below = inner.relative_to(root)
        findings.append(leading_finding(below, shown))
        root, shown = inner, shown / below
    findings += name_findings(root, shown)
    if (root / CONFIG_NAME).exists():
        model = _read(root, shown, findings)
        if model is not None:
            findings += _rules(model, root, options, loaded=())
        findings += trace_findings(top, top_shown, chosen=True)
        return RepositoryLint((), None, tuple(findings))
    folders = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not is_trace(entry.name))
    models: dict[str, ModelFolder] = {}
    for name in folders:
        model = _read(root / name, shown / name, findings)
        if model is not None:
            models[name] = model
            findings += model_findings(model, shown)
    entry = _entry(models, folders, options)
    chosen = entry is not None and (len(folders) > 1 or entry == options.default_model)
    findings += trace_findings(top, top_shown, chosen=chosen)
    configs = {name: model.config for name, model in models.items()}
    parts = {entry, *parts_of(entry, configs)} if entry and chosen else set()
    for model in models.values():
        findings += _rules(model, root, options, loaded=parts)
    loaded = parts or set(folders)
    for name in folders:
        if name in loaded and not (root / name / CONFIG_NAME).exists():
            findings += config_findings(root / name, shown)
    findings += choice_findings(root, shown, models, folders, options)
    return RepositoryLint(tuple(folders), entry, tuple(findings))


def _rules(
    model: ModelFolder, root: Path, options: LintOptions, *, loaded: Collection[str]
) -> Iterator[Finding]:
    yield from config_rules(model, options)
    yield from python_rules(model, root, options, loaded=loaded)


def _read(folder: Path, shown: Path, findings: list[Finding]) -> ModelFolder | None:
    """Read a model's configuration, or add why it cannot be read."""
    file = folder / CONFIG_NAME
    if not file.exists():
        return None
    if not is_small(file):
        message = "not a text file of at most 1 MiB"
        findings.append(in_file("error", ModelConfigError.code, shown / CONFIG_NAME, message, "replace it"))
        return None
    try:
        _, config, lines = parse_file(file, shown=shown / CONFIG_NAME)
    except InvalidFilesError as error:
        findings += [Finding(**vars(violation), severity="error") for violation in error.violations]
        return None
    return ModelFolder(folder.name, folder, shown, config, lines)


def _entry(models: dict[str, ModelFolder], folders: list[str], options: LintOptions) -> str | None:
    if options.default_model in folders:
        return options.default_model
    configs = {name: model.config for name, model in models.items()}
    ensembles = outer_ensembles(configs)
    if len(ensembles) == 1:
        return ensembles[0]
    return folders[0] if len(folders) == 1 else None

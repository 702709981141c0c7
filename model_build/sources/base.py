"""Interface of all sources: a folder, its revision, and a hash of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from model_build.errors import DamagedSourceError, ExportError, SourceError, UnsafeWeightsError
from model_build.resources import require_space
from model_build.store.archive import is_safe_name
from tritonstack.base.error_kinds import UntrustedPickleError
from tritonstack.base.files import read_json
from tritonstack.base.source_files import Files, list_files, require_same
from tritonstack.files.sources.safetensors_header import REMEDY, header_violation
from tritonstack.files.sources.source_selection import TRANSFORMERS, FileSelection

INDEXES = ("*.safetensors.index.json", "*.bin.index.json")
"""Index names of safetensors and of pickles."""


def check_weights(files: Iterable[Path]) -> None:
    """Raise SourceError for the first incomplete file, or an index with missing parts."""
    folders = set()
    for file in files:
        if file.suffix == ".safetensors":
            _check_file(file)
        folders.add(file.parent)
    for folder in sorted(folders):
        for pattern in INDEXES:
            for index in sorted(folder.glob(pattern)):
                _check_index(index)


def _check_file(file: Path) -> None:
    if violation := header_violation(file):
        raise DamagedSourceError(violation, remedy=REMEDY)
    try:
        # Reads and checks the header only: types, sizes, gaps, and overlaps.
        with safe_open(str(file), framework="np"):
            pass
    except (SafetensorError, OSError) as error:
        raise DamagedSourceError(f"the header of {file.name} is wrong: {error}", remedy=REMEDY) from error


def _check_index(index: Path) -> None:
    """Check index files: entries in other folders would load unhashed weights."""
    try:
        parts = sorted(set(read_json(index)["weight_map"].values()))
        outside = [part for part in parts if part != Path(part).name]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedSourceError(f"{index.name} has no valid weight map: {error}", remedy=REMEDY) from error
    if outside:
        raise DamagedSourceError(
            f"{index.name} names files outside its folder: {', '.join(outside[:5])}",
            remedy="copy the files next to it, and use names without folders",
        )
    missing = [part for part in parts if not (index.parent / part).is_file()]
    if missing and index.match(INDEXES[0]):  # pickles are fetched only if trusted
        raise DamagedSourceError(
            f"{index.name} names missing files: {', '.join(missing)}",
            remedy="fetch or copy the missing files too",
        )


def read_settings_file(folder: Path, name: str, kind: type[Any] = dict, *, required: bool = False) -> Any:
    """Return the content of a file, which must be of this type; empty if it is missing."""
    file = folder / name
    if not required and not file.is_file():
        return kind()
    try:
        content = read_json(file)
    except (OSError, ValueError) as error:
        raise ExportError(
            f"{name} cannot be read as JSON: {error}", remedy="fetch or copy the file again"
        ) from error
    if not isinstance(content, kind):
        raise ExportError(
            f"{name}: expected a {kind.__name__}, got a {type(content).__name__}",
            remedy="save the model again with the library that wrote it",
        )
    return content


CHUNK = 1 << 20
MOST_FILES = 5000
"""More files than this means that the wrong folder was named."""


@dataclass(frozen=True)
class FoundFolder:
    """What one kind of source found."""

    folder: Path
    revision: str
    others: tuple[str, ...] | None = ()
    """Files of the source that were listed and not fetched; None if the source could not be listed."""


@dataclass(frozen=True)
class FetchedSource:
    """A model's files on this machine, with revision and hash."""

    folder: Path
    revision: str
    weights_sha256: str
    listed: Files | None = None
    """Its files when fetched, before hashing."""
    others: tuple[str, ...] | None = ()
    """Files of the source that were listed and not fetched; None if the source could not be listed."""

    @property
    def files(self) -> Files:
        """Its files by name."""
        return list_files(self.folder) if self.listed is None else self.listed

    def require_unchanged(self) -> None:
        """Raise UnsafeFileError if a file was added, removed, replaced, or changed since the fetch."""
        if self.listed is not None:
            require_same(self.listed, list_files(self.folder))


def fetched(
    source_folder: FoundFolder, *, source: str, selection: FileSelection = TRANSFORMERS
) -> FetchedSource:
    """Return the record of a folder, after checking that its weights are safe to load."""
    files = list_files(source_folder.folder)
    weights = selection.weights_among(source_folder.folder)
    if not weights:
        raise no_weights(list(files), source, selection)
    check_weights(weights)
    return FetchedSource(
        source_folder.folder, source_folder.revision, hash_files(weights), files, source_folder.others
    )


def check_listing(sizes: Mapping[str, int], *, source: str, into: Path) -> None:
    """Check a source's listing before fetching: safe names, file count, and total size."""
    for name in sizes:
        # A remote name becomes a local path here.
        if not is_safe_name(name):
            raise DamagedSourceError(
                f"{source}: {name!r} is not a safe file name",
                remedy="use letters, digits, '.', '_', '-', and '/' only, and no '..'",
            )
    if len(sizes) > MOST_FILES:
        raise DamagedSourceError(
            f"{source}: expected at most {MOST_FILES} model files, got {len(sizes)}",
            remedy="use the folder of one model",
        )
    require_space(into, sum(sizes.values()), purpose=source)


def hash_files(files: Iterable[Path]) -> str:
    """Return the SHA-256 over the concatenated files; for a single file, its own."""
    digest = hashlib.sha256()
    for file in files:
        add_file(digest, file)
    return digest.hexdigest()


def add_file(digest: Any, file: Path) -> None:
    """Add a file's bytes to a hash."""
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)


def no_weights(names: Sequence[str], source: str, selection: FileSelection) -> SourceError:
    """Return the error for a source that has these files, but no weights."""
    missing = selection.missing(names)
    kind = UnsafeWeightsError if isinstance(missing, UntrustedPickleError) else SourceError
    return kind(f"{source}: {missing.message}", remedy=missing.remedy, code=missing.code)

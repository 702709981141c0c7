"""List the files of a model's folder or source; reject links out of the folder and special files.

Ignored everywhere: version control, caches of tools, virtual environments, and compiled Python (`IGNORED`).
Links are followed while they are relative and stay in the folder. A snapshot in a Hugging Face cache may
also link to the blobs of the same cache. Files are opened by `open_file` and `copy_file`, which compare what
they opened with what was listed, so that a link swapped in between is noticed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType

from tritonstack.base.error_kinds import UnreadableFileError
from tritonstack.base.errors import UsageError

IGNORED = frozenset(
    {
        *(".git", ".hg", ".svn", ".gitattributes", ".gitignore", ".gitkeep", ".gitmodules"),
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache", ".ipynb_checkpoints"),
        *(".venv", "venv", ".tox", ".idea", ".vscode", ".DS_Store"),
    }
)
IGNORED_SUFFIXES = (".pyc", ".pyo", "~", ".swp")
MOST_LINKS = 40
"""Maximum number of links followed per name; the same limit as in Linux."""
MOST_FILES = 100_000
COPY_INSTEAD = "replace it with a copy of the file"
_COPY_BYTES = 1 << 20


class UnsafeFileError(UsageError):
    """A file that a build must not read: a link out of the folder, or not a regular file."""

    code = UnreadableFileError.code


@dataclass(frozen=True)
class SourceFile:
    """A regular file below a folder, and its identity when it was listed."""

    name: str
    """Relative to the folder, with slashes."""
    path: Path
    """The file itself, with all links resolved."""
    stamp: tuple[int, ...]
    """Device, inode, size and modification time."""

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.stamp[2]


Files = Mapping[str, SourceFile]


def list_files(folder: Path, inner: str = "") -> Files:
    """Return the regular files below a folder by name, sorted; empty if the folder does not exist.

    `inner` names a folder in it: only files below that one are listed. Raises UnsafeFileError for links that
    leave the folder, absolute or broken links, loops, and special files.
    """
    root = real_path(folder)
    if not root.is_dir():
        return MappingProxyType({})
    entries: dict[str, SourceFile] = {}
    tree = _Tree(root)
    top = tree.resolve(root, inner, inner)
    for file in tree.walk(top, f"{inner}/" if inner else "", ()):
        entries[file.name] = file
        if len(entries) > MOST_FILES:
            raise UnsafeFileError(
                f"{folder} has more than {MOST_FILES} files", remedy="name the folder of one model"
            )
    return MappingProxyType(dict(sorted(entries.items())))


def find_file(folder: Path, name: str) -> SourceFile | None:
    """Return one file below a folder, or None if there is none; UnsafeFileError as for `list_files`."""
    root = real_path(folder)
    try:
        path = _Tree(root).resolve(root, name, name)
    except FileNotFoundError:
        return None
    return _source_file(name, path)


def open_file(file: SourceFile) -> BufferedReader:
    """Open the listed file; UnsafeFileError if it was replaced."""
    try:
        stream = open(os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: SIM115
    except OSError as error:
        raise _changed(file.name) from error
    if _stamp(os.fstat(stream.fileno())) != file.stamp:
        stream.close()
        raise _changed(file.name)
    return stream


def copy_file(file: SourceFile, target: Path) -> None:
    """Copy the listed file; UnsafeFileError if it was replaced."""
    with open_file(file) as stream, target.open("wb") as out:
        shutil.copyfileobj(stream, out, _COPY_BYTES)


def require_file(file: SourceFile, path: Path) -> None:
    """Raise UnsafeFileError unless a hard link points to the listed file."""
    if _stamp(path.lstat()) != file.stamp:
        raise _changed(file.name)


def copy_from(folder: Path, name: str, target: Path) -> None:
    """Copy one file below a folder; UnsafeFileError if it is missing, or as for `list_files`."""
    file = find_file(folder, name)
    if file is None:
        raise UnsafeFileError(
            f"file {name} not found in {folder}", remedy="add the file, or correct its name"
        )
    copy_file(file, target)


def require_same(before: Files, after: Files) -> None:
    """Raise UnsafeFileError if files were added, removed, replaced or written since they were listed."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            raise _changed(name)


def real_path(path: Path) -> Path:
    """Return a path with all links resolved; unlike `Path.resolve`, accept loops."""
    return Path(os.path.realpath(path))


def is_ignored(name: str) -> bool:
    """Check whether a file or folder of this name is never part of a model."""
    return name in IGNORED or name.endswith(IGNORED_SUFFIXES)


def source_folder(model_folder: Path, text: str, *, trusted: bool) -> Path:
    """Return the folder of `file://<text>`; outside the model's folder only if `trusted`."""
    folder = real_path(model_folder / text)
    if not trusted and (leaves_folder(text) or not folder.is_relative_to(real_path(model_folder))):
        raise UnsafeFileError(f"file://{text} is outside the model's folder", remedy=TRUST_EXTERNAL)
    return folder


TRUST_EXTERNAL = (
    "move the files into the model's folder, or write `trust: {external_source: <reason>}` in model.yaml"
)


def leaves_folder(text: str) -> bool:
    """Check whether the path of a `file://` source is absolute or leaves the folder."""
    return text.startswith("/") or ".." in text.split("/")


class _Tree:
    """A folder whose links must not leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        """Resolved."""
        self.cache = _cache_of(root)

    def walk(self, folder: Path, prefix: str, above: tuple[Path, ...]) -> Iterator[SourceFile]:
        """Yield the files below one folder; `above` are its parent folders."""
        if folder in above:
            raise UnsafeFileError(
                f"{prefix.rstrip('/')} is a link to a folder that contains it", remedy="remove the link"
            )
        try:
            entries = sorted(os.listdir(folder))
        except OSError as error:
            raise UnsafeFileError(
                f"cannot read {prefix or folder}: {error.strerror}",
                remedy="make the folder readable for your user, or move it out of the model's folder",
            ) from error
        for entry in entries:
            if is_ignored(entry):
                continue
            name = f"{prefix}{entry}"
            try:
                path = self.resolve(folder, entry, name)
            except FileNotFoundError:
                raise UnsafeFileError(
                    f"{name} is a broken link", remedy="remove it, or fetch its target again"
                ) from None
            if path.is_dir():
                yield from self.walk(path, f"{name}/", (*above, folder))
            else:
                yield _source_file(name, path)

    def resolve(self, folder: Path, inner: str, name: str) -> Path:
        """Resolve a name below a resolved folder; FileNotFoundError if it does not exist."""
        at, waiting, links = folder, inner.split("/")[::-1], 0
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            at = at.parent if part == ".." else at / part
            if part != ".." and at.is_symlink():
                links += 1
                if links > MOST_LINKS:
                    raise UnsafeFileError(f"{name} is a loop of links", remedy="remove it")
                target, at = os.readlink(at), at.parent
                if target.startswith("/"):
                    raise UnsafeFileError(
                        f"{name} is a link to the absolute path {target}", remedy=COPY_INSTEAD
                    )
                waiting += target.split("/")[::-1]
            elif not at.is_relative_to(self.cache or self.root):
                raise _out_of_folder(name, at)
        if not (at.is_relative_to(self.root) or (self.cache and at.parent == self.cache / "blobs")):
            raise _out_of_folder(name, at)
        at.lstat()
        return at


def _cache_of(root: Path) -> Path | None:
    """Return the model's folder in a Hugging Face cache, if `root` is in one of its snapshots."""
    for folder in (root, *root.parents):
        model = folder.parent.parent
        if folder.parent.name == "snapshots" and model.name.startswith("models--"):
            return model
    return None


def _out_of_folder(name: str, target: Path) -> UnsafeFileError:
    return UnsafeFileError(f"{name} is a link out of the folder, to {target}", remedy=COPY_INSTEAD)


def _source_file(name: str, path: Path) -> SourceFile:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(
            f"{name} is {_kind(status.st_mode)}, not a regular file", remedy="remove it, or move it elsewhere"
        )
    return SourceFile(name, path, _stamp(status))


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def _changed(name: str) -> UnsafeFileError:
    return UnsafeFileError(
        f"{name} changed during the build", remedy="build again while nothing else writes to the files"
    )

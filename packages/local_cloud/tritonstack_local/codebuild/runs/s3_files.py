"""Download a build's source from S3, and upload its artifacts."""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.codebuild.errors import PhaseFailedError
from tritonstack_local.codebuild.runs.buildspec import ArtifactSpec

_ARN = "arn:aws:s3:::"
_MODE_SHIFT, _MODE_MASK = 16, 0o777
_CHUNK = 1 << 20
# Errors of an invalid archive: format, names (too long, or below a file), password, unknown compression, or
# damaged data.
_UNUSABLE = (
    zipfile.BadZipFile,
    ValueError,
    OSError,
    RuntimeError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
)


def fetch_source(s3: Any, source: Mapping[str, Any], version: str | None, *, to: Path, scratch: Path) -> str:
    """Download a source to a folder; return its version."""
    to.mkdir(parents=True)
    if source["type"] == "NO_SOURCE":
        return ""
    bucket, _, key = source["location"].removeprefix(_ARN).partition("/")
    name = source.get("sourceIdentifier", "primary source")
    try:
        if key.endswith("/"):
            _fetch_folder(s3, bucket, key, to)
            return f"{_ARN}{bucket}/{key}"
        return _fetch_archive(s3, bucket, key, version, to=to, scratch=scratch)
    except ClientError as error:
        reason = f"{aws_error_code(error)}: {aws_error_message(error)}"
        raise PhaseFailedError(
            "CLIENT_ERROR", f"error while downloading key {key}, error: {reason}, for {name}"
        ) from error
    except _UNUSABLE as error:
        raise PhaseFailedError("CLIENT_ERROR", f"{error} for {name}") from error


def fetch_text(s3: Any, arn: str) -> str:
    """Read a buildspec from S3."""
    bucket, _, key = arn.removeprefix(_ARN).partition("/")
    try:
        text: str = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    except ClientError as error:
        raise PhaseFailedError("YAML_FILE_ERROR", f"{arn}: {aws_error_message(error)}") from error
    return text


def _fetch_archive(s3: Any, bucket: str, key: str, version: str | None, *, to: Path, scratch: Path) -> str:
    answer = s3.get_object(Bucket=bucket, Key=key, **({"VersionId": version} if version else {}))
    archive = scratch / "source.zip"
    with archive.open("wb") as file:
        for chunk in answer["Body"].iter_chunks(_CHUNK):
            file.write(chunk)
    unpack(archive, to)
    archive.unlink()
    return str(answer.get("VersionId") or f"{_ARN}{bucket}/{key}")


def _fetch_folder(s3: Any, bucket: str, prefix: str, to: Path) -> None:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    if not keys:
        raise PhaseFailedError("CLIENT_ERROR", f"no objects below {bucket}/{prefix} for primary source")
    for key in keys:
        target = _below(to, key.removeprefix(prefix))
        if key.endswith("/"):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, key, str(target))


def unpack(archive: Path, to: Path) -> None:
    """Unpack a zip archive with file modes; reject paths outside the folder."""
    with zipfile.ZipFile(archive) as files:
        for member in files.infolist():
            target = _below(to, member.filename)
            files.extract(member, to)
            mode = member.external_attr >> _MODE_SHIFT & _MODE_MASK
            if mode and not member.is_dir():
                target.chmod(mode)


def _below(folder: Path, name: str) -> Path:
    target = (folder / name).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise ValueError(f"illegal file path in the source: {name}")
    return target


def upload_artifact(
    s3: Any,
    settings: Mapping[str, Any],
    spec: ArtifactSpec | None,
    *,
    name: str,
    build_id: str,
    source: Path,
    folder: Path,
) -> dict[str, Any]:
    """Upload one artifact, and return its location in the format of BatchGetBuilds.

    `folder` is the build's folder: no file outside it is read, whatever links the build has made.
    """
    found = _files(spec, source) if spec is not None else {}
    if not found:
        raise PhaseFailedError("CLIENT_ERROR", "no matching artifact paths found")
    bucket = settings["location"].removeprefix("arn:aws:s3:::")
    key = _key(settings, name, build_id)
    description = {"location": f"arn:aws:s3:::{bucket}/{key}"}
    description |= {
        item: settings[item]
        for item in ("artifactIdentifier", "overrideArtifactName", "encryptionDisabled")
        if item in settings
    }
    try:
        if settings.get("packaging") == "ZIP":
            return description | _upload_archive(s3, found, bucket, key, folder)
        for inside, file in found.items():
            with _opened(file, folder) as content:
                s3.upload_fileobj(content, bucket, f"{key}/{inside}")
    except ClientError as error:
        raise PhaseFailedError("CLIENT_ERROR", f"Error in UPLOAD_ARTIFACTS phase: {error}") from error
    return description


def _key(settings: Mapping[str, Any], name: str, build_id: str) -> str:
    namespace = build_id if settings.get("namespaceType") == "BUILD_ID" else ""
    parts = (settings.get("path", ""), namespace, name)
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def _files(spec: ArtifactSpec, source: Path) -> dict[str, Path]:
    """Return the files by their names in the artifact."""
    bases = [base for base in _expanded(source, spec.base_directory) if base.is_dir()]
    if not bases:
        raise PhaseFailedError(
            "CLIENT_ERROR", "no matching base directory path found for " + spec.base_directory
        )
    found: dict[str, Path] = {}
    for base in bases:
        left_out = {file for pattern in spec.exclude_paths for file in _expanded(base, pattern)}
        for file in (file for pattern in spec.files for file in _expanded(base, pattern)):
            if file.is_file() and file not in left_out:
                inside = file.name if spec.discard_paths else file.relative_to(base).as_posix()
                found[inside] = file
    return found


def _expanded(base: Path, pattern: str) -> Iterator[Path]:
    """Return the files that match a pattern below a folder; reject paths outside it."""
    relative = PurePosixPath(pattern.removeprefix(str(base)).lstrip("/"))
    if ".." in relative.parts:
        raise PhaseFailedError("CLIENT_ERROR", f"artifact path {pattern} is outside the source")
    if str(relative) == ".":
        yield base
        return
    # A trailing ** also matches files, at any depth.
    yield from base.glob(f"{relative}/*" if relative.name == "**" else str(relative))


def _upload_archive(
    s3: Any, files: Mapping[str, Path], bucket: str, key: str, folder: Path
) -> dict[str, str]:
    with tempfile.TemporaryFile(dir=folder.parent) as archive:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for inside, file in sorted(files.items()):
                with _opened(file, folder) as content:
                    _pack(packed, inside, content)
        sums = {}
        for algorithm in ("sha256", "md5"):
            archive.seek(0)
            sums[f"{algorithm}sum"] = hashlib.file_digest(archive, algorithm).hexdigest()
        archive.seek(0)
        s3.upload_fileobj(archive, bucket, key)
    return sums


def _pack(packed: zipfile.ZipFile, name: str, content: BinaryIO) -> None:
    found = os.fstat(content.fileno())
    member = zipfile.ZipInfo(name, max(time.localtime(found.st_mtime)[:6], (1980, 1, 1, 0, 0, 0)))
    member.external_attr = found.st_mode << _MODE_SHIFT
    member.compress_type, member.file_size = zipfile.ZIP_DEFLATED, found.st_size
    with packed.open(member, "w") as target:
        shutil.copyfileobj(content, target, _CHUNK)


def _opened(file: Path, folder: Path) -> BinaryIO:
    """Open a file of a build; its processes may replace any folder by a link at any time."""
    inside = os.path.relpath(os.path.realpath(file), os.path.realpath(folder))
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in Path(inside).parts:
            if part == "..":
                raise OSError(errno.ELOOP, "it is outside the build's folder")
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
            os.close(here)
            here = inner
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return os.fdopen(os.dup(here), "rb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise PhaseFailedError("CLIENT_ERROR", f"artifact path {file.name}: {reason}") from error
    finally:
        os.close(here)

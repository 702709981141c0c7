"""Download a build's source, a zip archive in S3."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import aws_error_code, aws_error_message
from tritonstack_local.codebuild.errors import PhaseFailedError

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
    try:
        return _fetch_archive(s3, bucket, key, version, to=to, scratch=scratch)
    except ClientError as error:
        reason = f"{aws_error_code(error)}: {aws_error_message(error)}"
        raise PhaseFailedError(
            "CLIENT_ERROR", f"error while downloading key {key}, error: {reason}, for primary source"
        ) from error
    except _UNUSABLE as error:
        raise PhaseFailedError("CLIENT_ERROR", f"{error} for primary source") from error


def _fetch_archive(s3: Any, bucket: str, key: str, version: str | None, *, to: Path, scratch: Path) -> str:
    answer = s3.get_object(Bucket=bucket, Key=key, **({"VersionId": version} if version else {}))
    archive = scratch / "source.zip"
    with archive.open("wb") as file:
        for chunk in answer["Body"].iter_chunks(_CHUNK):
            file.write(chunk)
    unpack(archive, to)
    archive.unlink()
    return str(answer.get("VersionId") or f"{_ARN}{bucket}/{key}")


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

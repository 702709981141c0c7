"""What a build leaves behind in S3: the files that its buildspec names, as one archive or one by one."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from botocore.exceptions import ClientError

from tritonstack_local.codebuild.buildspec import ArtifactSpec
from tritonstack_local.codebuild.faults import PhaseFailedError


def upload_artifact(
    s3: Any,
    settings: Mapping[str, Any],
    spec: ArtifactSpec | None,
    *,
    name: str,
    build_id: str,
    source: Path,
    scratch: Path,
) -> dict[str, Any]:
    """Upload one artifact, and say where it lies as BatchGetBuilds does."""
    found = _files(spec, source) if spec is not None else {}
    if not found:
        raise PhaseFailedError("CLIENT_ERROR", "no matching artifact paths found")
    bucket = settings["location"].removeprefix("arn:aws:s3:::")
    key = _key(settings, name, build_id)
    told = {"location": f"arn:aws:s3:::{bucket}/{key}"}
    told |= {
        item: settings[item]
        for item in ("artifactIdentifier", "overrideArtifactName", "encryptionDisabled")
        if item in settings
    }
    try:
        if settings.get("packaging") == "ZIP":
            return told | _upload_archive(s3, found, bucket, key, scratch / "artifact.zip")
        for inside, file in found.items():
            s3.upload_file(str(file), bucket, f"{key}/{inside}")
    except ClientError as fault:
        raise PhaseFailedError("CLIENT_ERROR", f"Error in UPLOAD_ARTIFACTS phase: {fault}") from fault
    return told


def _key(settings: Mapping[str, Any], name: str, build_id: str) -> str:
    namespace = build_id if settings.get("namespaceType") == "BUILD_ID" else ""
    parts = (settings.get("path", ""), namespace, name)
    return "/".join(part.strip("/") for part in parts if part.strip("/"))


def _files(spec: ArtifactSpec, source: Path) -> dict[str, Path]:
    """The files by the names that they have in the artifact."""
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
    """What a pattern stands for below a folder; nothing above the folder belongs to a build."""
    relative = PurePosixPath(pattern.removeprefix(str(base)).lstrip("/"))
    if ".." in relative.parts:
        raise PhaseFailedError("CLIENT_ERROR", f"artifact path {pattern} lies outside the source")
    if str(relative) == ".":
        yield base
        return
    # A last ** stands for files too, at any depth.
    yield from base.glob(f"{relative}/*" if relative.name == "**" else str(relative))


def _upload_archive(
    s3: Any, files: Mapping[str, Path], bucket: str, key: str, archive: Path
) -> dict[str, str]:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for inside, file in sorted(files.items()):
            packed.write(file, inside)
    sums = {}
    for algorithm in ("sha256", "md5"):
        with archive.open("rb") as content:
            sums[f"{algorithm}sum"] = hashlib.file_digest(content, algorithm).hexdigest()
    s3.upload_file(str(archive), bucket, key)
    archive.unlink()
    return sums

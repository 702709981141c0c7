"""s3://bucket/prefix: a model's files in a bucket."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from model_build.archive import is_safe_name
from model_build.aws_errors import explain
from model_build.errors import SourceError
from model_build.sources.base import FoundFolder, is_model_file


@dataclass(frozen=True, order=True)
class RemoteFile:
    """One object below the prefix. The entity tag changes with its content."""

    name: str
    key: str
    tag: str
    size: int


def fetch_from_s3(text: str, *, cache_dir: Path) -> FoundFolder:
    """The files below a prefix; the revision is a hash over their names, sizes and entity tags."""
    bucket, _, prefix = text.partition("/")
    prefix = prefix.rstrip("/") + "/"
    try:
        client = boto3.client("s3")
        files = _list(client, bucket, prefix)
        if not files:
            raise SourceError(f"s3://{text}: no model files below this prefix", remedy="check the prefix")
        return _download(client, bucket, files, cache_dir / "s3")
    except (BotoCoreError, ClientError) as error:
        raise explain(
            error,
            error_type=SourceError,
            doing=f"s3://{text}",
            bucket=bucket,
            missing_bucket_remedy="check the bucket's name in `source` of model.yaml",
        ) from error


def _list(client: Any, bucket: str, prefix: str) -> list[RemoteFile]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    files = []
    for page in pages:
        for entry in page.get("Contents", []):
            name = entry["Key"].removeprefix(prefix)
            if is_model_file(name):
                files.append(RemoteFile(_checked(name), entry["Key"], entry["ETag"], entry["Size"]))
    return sorted(files)


def _checked(name: str) -> str:
    """A key is text from elsewhere, and becomes a path here."""
    if not is_safe_name(name):
        raise SourceError(
            f"the object name {name!r} is not a safe file name",
            remedy="use letters, digits, '.', '_', '-' and '/' only, and no '..'",
        )
    return name


def _download(client: Any, bucket: str, files: list[RemoteFile], cache_dir: Path) -> FoundFolder:
    listing = "".join(f"{file.name}\0{file.size}\0{file.tag}\n" for file in files)
    revision = hashlib.sha256(listing.encode()).hexdigest()
    target = cache_dir / revision
    if not target.is_dir():
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix=".fetching-") as temporary:
            folder = Path(temporary) / "files"
            for file in files:
                destination = folder / file.name
                destination.parent.mkdir(parents=True, exist_ok=True)
                client.download_file(bucket, file.key, str(destination))
            if not target.is_dir():
                folder.rename(target)
    return FoundFolder(target, f"sha256:{revision}")

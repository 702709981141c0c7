"""s3://bucket/prefix: a model's files in a bucket.

Every part of a download names the listed entity tag, so an object that changes meanwhile is an error. Tags
that are MD5 hashes are compared with the received bytes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from model_build.errors import AlteredSourceError, SourceError
from model_build.sources.base import FoundFolder, add_file, check_listing, check_weights, no_weights
from model_build.store.publishing import explain
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import staging_folder
from tritonstack.files.sources.source_selection import TRANSFORMERS, FileSelection

PART_BYTES = 32 << 20
AT_ONCE = 8
CHANGED_CODES = frozenset({"PreconditionFailed", "412"})
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_KEYED = ("aws:kms", "aws:kms:dsse")
"""Encryptions whose entity tags are not MD5 hashes."""


@dataclass(frozen=True, order=True)
class RemoteFile:
    """One object below the prefix. The entity tag changes with its content."""

    name: str
    key: str
    tag: str
    size: int


@dataclass(frozen=True)
class _Part:
    file: RemoteFile
    begin: int

    @property
    def range(self) -> str:
        """The byte range of the request."""
        return f"bytes={self.begin}-{min(self.begin + PART_BYTES, self.file.size) - 1}"


def fetch_from_s3(text: str, *, cache_dir: Path, selection: FileSelection = TRANSFORMERS) -> FoundFolder:
    """Fetch the wanted files below a prefix; the revision is a hash over names, sizes, and entity tags."""
    bucket, _, prefix = text.partition("/")
    prefix = prefix.rstrip("/") + "/"
    try:
        client = boto3.client("s3")
        listed = _list(client, bucket, prefix)
        if not listed:
            raise SourceError(f"s3://{text}: no model files below this prefix", remedy="check the prefix")
        files = [file for file in listed if selection.holds(file.name)]
        if not selection.has_weights([file.name for file in files]):
            raise no_weights([file.name for file in listed], f"s3://{text}", selection)
        revision = _revision(files)
        folder = cache_dir / "s3" / revision
        if not all((folder / file.name).is_file() for file in files):
            _fetch(client, text, files, selection, folder)
        others = tuple(file.name for file in listed if file not in files)
        return FoundFolder(folder, f"sha256:{revision}", others)
    except (BotoCoreError, ClientError) as error:
        if aws_error_code(error) in CHANGED_CODES:
            raise AlteredSourceError(
                f"s3://{text}: an object changed while it was fetched",
                remedy="build again when nothing writes there; better, use one prefix per version",
            ) from error
        raise explain(
            error,
            error_type=SourceError,
            doing=f"s3://{text}",
            bucket=bucket,
            missing_bucket_remedy="check the bucket name in `source` of model.yaml",
        ) from error


def _list(client: Any, bucket: str, prefix: str) -> list[RemoteFile]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    entries = (
        (entry["Key"].removeprefix(prefix), entry) for page in pages for entry in page.get("Contents", [])
    )
    return sorted(
        RemoteFile(name, entry["Key"], entry["ETag"], entry["Size"])
        for name, entry in entries
        if not name.endswith("/")
    )


def _revision(files: Sequence[RemoteFile]) -> str:
    listing = "".join(f"{file.name}\0{file.size}\0{file.tag}\n" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _fetch(
    client: Any, source: str, files: Sequence[RemoteFile], selection: FileSelection, target: Path
) -> None:
    bucket = source.partition("/")[0]
    check_listing({file.name: file.size for file in files}, source=f"s3://{source}", into=target.parent)
    with staging_folder(target.parent, ".fetching-") as temporary:
        folder = temporary / "files"
        for file in files:
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / file.name).touch()
        parts = [_Part(file, begin) for file in files for begin in range(0, file.size, PART_BYTES)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            encryptions = list(pool.map(lambda part: _download(client, bucket, part, folder), parts))
        for file in files:
            if (folder / file.name).stat().st_size != file.size:
                raise _listing_mismatch(file, f"s3://{source}")
        check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
        keyed = {
            part.file for part, encryption in zip(parts, encryptions, strict=True) if encryption in _KEYED
        }
        for file in files:
            _check_file(folder / file.name, file, has_md5=file not in keyed, source=f"s3://{source}")
        if not target.is_dir():
            folder.rename(target)


def _download(client: Any, bucket: str, part: _Part, folder: Path) -> str | None:
    """Download one part; return the object's encryption."""
    reply = client.get_object(Bucket=bucket, Key=part.file.key, Range=part.range, IfMatch=part.file.tag)
    content = reply["Body"].read()
    with (folder / part.file.name).open("r+b") as stream:
        os.pwrite(stream.fileno(), content, part.begin)
    encryption: str | None = reply.get("ServerSideEncryption")
    return encryption


def _listing_mismatch(file: RemoteFile, source: str) -> SourceError:
    return AlteredSourceError(f"{source}: checksum mismatch for {file.name}", remedy="build again")


def _check_file(path: Path, file: RemoteFile, *, has_md5: bool, source: str) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    add_file(digest, path)
    tag = _MD5.fullmatch(file.tag)
    if has_md5 and tag is not None and tag[1] != digest.hexdigest():
        raise _listing_mismatch(file, source)

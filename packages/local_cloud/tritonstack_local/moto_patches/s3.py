"""Correct moto's S3: concurrent reads and writes of objects, and their checksums."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakValueDictionary

from moto.moto_server.utilities import RegexConverter
from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML, NoSuchUpload
from moto.s3.models import FakeMultipart, S3Backend
from moto.s3.responses import S3Response
from moto.s3.utils import compute_checksum
from moto.settings import S3_UPLOAD_PART_MIN_SIZE
from werkzeug.routing import BaseConverter

from tritonstack_local.state.bodies import joined
from tritonstack_local.state.persistence import draft_of

_set_up = S3Response.setup_class
_answer = S3Response._key_response
_answer_head_object = S3Response.head_object
_copy = S3Backend.copy_object


class _Turns:
    """One lock per object."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._locks: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()

    def of(self, bucket: str, key: str) -> threading.Lock:
        """Return the lock of an object."""
        with self._alone:
            return self._locks.setdefault((bucket, key), threading.Lock())


_TURNS = _Turns()


def _any_character(converter: Any, url_map: Any, pattern: str) -> None:
    BaseConverter.__init__(converter, url_map)
    converter.regex = f"(?s:{pattern})"


def _setup_class(response: Any, request: Any, *arguments: Any, **named: Any) -> None:
    _set_up(response, request, *arguments, **named)
    draft = draft_of(request.environ)
    if draft is not None:
        response.body = response.raw_body = draft


def _key_response(response: Any, request: Any, full_url: str) -> Any:
    with _TURNS.of(response.bucket_name, response.parse_key_name()):
        return _answer(response, request, full_url)


def _head_object(
    response: Any, bucket_name: str, query: dict[str, Any], key_name: str, headers: dict[str, Any]
) -> Any:
    status, answered, body = _answer_head_object(response, bucket_name, query, key_name, headers)
    version = query.get("versionId", [None])[0]
    key = response.backend.head_object(bucket_name, key_name, version_id=version) if status == 200 else None
    if key is not None and key.checksum_type == "COMPOSITE":
        name = f"x-amz-checksum-{key.checksum_algorithm.lower()}"
        if name in answered:
            answered[name] = f"{key.checksum_value}-{key.checksum_parts}"
            answered["x-amz-checksum-type"] = key.checksum_type
    return status, answered, body


def _copy_object(
    backend: Any, src_key: Any, dest_bucket_name: str, dest_key_name: str, *arguments: Any, **named: Any
) -> None:
    _copy(backend, src_key, dest_bucket_name, dest_key_name, *arguments, **named)
    if src_key.checksum_type == "COMPOSITE":
        copied = backend.get_bucket(dest_bucket_name).keys[dest_key_name]
        copied.checksum_value = compute_checksum(copied.value, algorithm=src_key.checksum_algorithm).decode()


def _complete(upload: Any, listed: Iterable[tuple[int, str]]) -> tuple[Any, str, tuple[str, str, int]]:
    """Complete an upload like moto, without the object in memory."""
    algorithm = upload.metadata.get("x-amz-checksum-algorithm") or "CRC64NVME"
    usual = "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE"
    kind = upload.metadata.get("x-amz-checksum-type") or usual
    parts = list(_listed_parts(upload, listed))
    if not parts:
        raise MalformedXML
    if any(part.contentsize < S3_UPLOAD_PART_MIN_SIZE for part in parts[:-1]):
        raise EntityTooSmall
    etags = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
    content: Any = joined(part.value for part in parts)
    etag = f"{hashlib.md5(etags, usedforsecurity=False).hexdigest()}-{len(parts)}"
    if kind == "COMPOSITE":
        checksums = b"".join(compute_checksum(part.value, algorithm, encode_base64=False) for part in parts)
        return content, etag, (kind, compute_checksum(checksums, algorithm).decode(), len(parts))
    return content, etag, (kind, compute_checksum(content, algorithm).decode(), 1)


def _listed_parts(upload: Any, listed: Iterable[tuple[int, str]]) -> Iterator[Any]:
    for number, etag in listed:
        part = upload.parts.get(number)
        if part is None or part.etag.strip('"') != etag.replace('"', ""):
            raise InvalidPart
        yield part


def _of_known_uploads(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a moto method that gets an upload id, to reject unknown uploads."""

    def call(backend: Any, bucket_name: str, multipart_id: str, *arguments: Any, **named: Any) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(upload_id=multipart_id)
        return method(backend, bucket_name, multipart_id, *arguments, **named)

    return call


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto routes no path with a line feed, which keys may contain.
    (RegexConverter, "__init__", _any_character),
    # moto shows an object before it has its metadata, looks whether there is one (If-None-Match) before it
    # writes, and takes parts while it puts them together: on AWS each of these is one step.
    (S3Response, "_key_response", _key_response),
    # moto reads objects into memory; large ones are already in files.
    (S3Response, "setup_class", _setup_class),
    # moto fails on calls for an upload that another client completed.
    (S3Backend, "upload_part", _of_known_uploads(S3Backend.upload_part)),
    (S3Backend, "complete_multipart_upload", _of_known_uploads(S3Backend.complete_multipart_upload)),
    # moto's HeadObject returns the checksum of a multipart upload as that of the whole object.
    (S3Response, "head_object", _head_object),
    # moto joins the parts in memory, three times.
    (FakeMultipart, "complete", _complete),
    # moto gives a copy the composite checksum of the copied multipart upload.
    (S3Backend, "copy_object", _copy_object),
)

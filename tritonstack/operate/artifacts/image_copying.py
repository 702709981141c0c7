"""Copy images between ECR registries by digest, through ECR's API: without Docker or local files.

Manifests are copied byte for byte, so images keep their digests; ECR rejects layers and manifests that do not
match theirs. Layers are found by digest, so rerunning skips those that were copied. The AWS client retries
calls whose response was lost, and ECR rejects what it already has. The target repository encrypts the image
with its own key.
"""

from __future__ import annotations

import hashlib
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.error_kinds import CopyError
from tritonstack.base.errors import aws_error_code
from tritonstack.base.files import parse_json
from tritonstack.operate.artifacts.transfers import CHUNK, OnBytes, Sleep, read_all
from tritonstack.operate.shared.artifacts import find_image
from tritonstack.operate.shared.aws import Cloud

_INDEXES = (
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.index.v1+json",
)
_MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)
_LAYERS_ASKED_AT_ONCE = 100
_PATIENCE_S = 60
_BREAKS = (OSError, HTTPException)
"""Errors that end a connection, including rejections by the server."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_ENDED_BEFORE = ("LayerAlreadyExistsException", "UploadNotFoundException")


@dataclass(frozen=True)
class Registry:
    """One repository of one account."""

    cloud: Cloud
    repository: str

    @property
    def place(self) -> dict[str, str]:
        """Return the parameters of ECR calls that identify it."""
        return {"registryId": self.cloud.account, "repositoryName": self.repository}

    @property
    def uri(self) -> str:
        """Return the URI of the repository."""
        return f"{self.cloud.account}.dkr.ecr.{self.cloud.region}.amazonaws.com/{self.repository}"


@dataclass(frozen=True)
class _Manifest:
    digest: str
    media_type: str
    text: str

    @property
    def members(self) -> Sequence[Mapping[str, Any]]:
        """Return the images of an image index."""
        return parse_json(self.text).get("manifests", ()) if self.media_type in _INDEXES else ()

    @property
    def blobs(self) -> list[Mapping[str, Any]]:
        """Return the layers of an image without duplicates; foreign layers are not copied."""
        manifest = parse_json(self.text)
        pieces = [manifest["config"], *manifest["layers"]] if self.media_type not in _INDEXES else []
        return list({piece["digest"]: piece for piece in pieces if not piece.get("urls")}.values())


def image_bytes(source: Registry, target: Registry, digest: str) -> int:
    """Return the number of bytes to copy."""
    return sum(
        piece["size"] for manifest in _tree(source, digest) for piece in _missing(target, manifest.blobs)
    )


def copy_image(
    source: Registry, target: Registry, *, digest: str, tag: str, on_bytes: OnBytes, sleep: Sleep = time.sleep
) -> bool:
    """Copy an image to the target under a tag; return whether anything changed."""
    if tagged_digest(target, tag) == digest:
        return False
    for manifest in _tree(source, digest):
        for piece in _missing(target, manifest.blobs):
            _copy_layer(_layer(source, piece), target, on_bytes, sleep)
        _put(target, manifest, tag if manifest.digest == digest else None)
    landed = tagged_digest(target, tag)
    if landed != digest:
        raise CopyError(
            f"{target.uri}:{tag} is {landed or 'missing'} after copying {digest} to it",
            remedy="check what changes or deletes images there, then rerun the command",
        )
    return True


def tagged_digest(registry: Registry, tag: str) -> str | None:
    """Return the digest of a tag; None if it does not exist."""
    image = find_image(registry.cloud.client("ecr"), {"imageTag": tag}, **registry.place)
    return str(image["imageDigest"]) if image else None


def _tree(source: Registry, digest: str) -> Iterator[_Manifest]:
    """Yield the manifests of an image, its members before the index, as ECR requires."""
    manifest = _manifest(source, digest)
    for member in manifest.members:
        yield from _tree(source, member["digest"])
    yield manifest


def _manifest(source: Registry, digest: str) -> _Manifest:
    answer = source.cloud.client("ecr").batch_get_image(
        **source.place, imageIds=[{"imageDigest": digest}], acceptedMediaTypes=[*_INDEXES, *_MANIFESTS]
    )
    if not answer["images"]:
        reason = "; ".join(failure.get("failureReason", "") for failure in answer.get("failures", ()))
        raise CopyError(
            f"cannot read {source.uri}@{digest}: {reason or 'not found'}",
            remedy="run `tritonstack build` for the source environment to push it",
        )
    (image,) = answer["images"]
    text = image["imageManifest"]
    actual = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    if actual != digest:
        raise CopyError(
            f"digest mismatch for the manifest of {source.uri}@{digest}: got {actual}",
            remedy="promote again; if it happens again, rebuild the image with `tritonstack build` for the "
            "source environment",
        )
    media_type = image.get("imageManifestMediaType") or parse_json(text)["mediaType"]
    return _Manifest(digest, media_type, text)


def _missing(target: Registry, blobs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the layers that the target does not have."""
    ecr = target.cloud.client("ecr")
    for start in range(0, len(blobs), _LAYERS_ASKED_AT_ONCE):
        batch = blobs[start : start + _LAYERS_ASKED_AT_ONCE]
        answer = ecr.batch_check_layer_availability(
            **target.place, layerDigests=[piece["digest"] for piece in batch]
        )
        existing = {
            layer["layerDigest"] for layer in answer["layers"] if layer["layerAvailability"] == "AVAILABLE"
        }
        yield from (piece for piece in batch if piece["digest"] not in existing)


def _layer(source: Registry, piece: Mapping[str, Any]) -> _Layer:
    ecr, digest = source.cloud.client("ecr"), piece["digest"]

    def link() -> str:
        return str(ecr.get_download_url_for_layer(**source.place, layerDigest=digest)["downloadUrl"])

    return _Layer(digest, piece["size"], source.uri, link)


def _copy_layer(layer: _Layer, target: Registry, on_bytes: OnBytes, sleep: Sleep) -> None:
    ecr, hashed, first = target.cloud.client("ecr"), hashlib.sha256(), 0
    upload = ecr.initiate_layer_upload(**target.place)
    for part in _parts(layer, upload["partSize"], sleep):
        hashed.update(part)
        _send(target, upload["uploadId"], first, part)
        first += len(part)
        on_bytes(len(part))
    if (actual := f"sha256:{hashed.hexdigest()}") != layer.digest:
        raise _bad_layer(layer, f"got {actual}")
    try:
        ecr.complete_layer_upload(**target.place, uploadId=upload["uploadId"], layerDigests=[layer.digest])
    except ClientError as error:
        # Another run completed it first, or this is a retry; only its presence matters.
        if aws_error_code(error) not in _ENDED_BEFORE or any(_missing(target, [{"digest": layer.digest}])):
            raise


def _send(target: Registry, upload: str, first: int, part: bytes) -> None:
    """Send the next part of a layer; ECR rejects parts that it already has."""
    last = first + len(part) - 1
    try:
        target.cloud.client("ecr").upload_layer_part(
            **target.place, uploadId=upload, partFirstByte=first, partLastByte=last, layerPartBlob=part
        )
    except ClientError as error:
        if aws_error_code(error) != "InvalidLayerPartException":
            raise
        if error.response.get("lastValidByteReceived") != last:
            raise


def _put(target: Registry, manifest: _Manifest, tag: str | None) -> None:
    ecr = target.cloud.client("ecr")
    try:
        ecr.put_image(
            **target.place,
            imageManifest=manifest.text,
            imageManifestMediaType=manifest.media_type,
            imageDigest=manifest.digest,
            **({"imageTag": tag} if tag else {}),
        )
    except ClientError as error:
        code = aws_error_code(error)
        if code == "ImageTagAlreadyExistsException" and tag and tagged_digest(target, tag) != manifest.digest:
            raise CopyError(
                f"{target.uri}:{tag} already exists with another image, and tags are immutable there",
                remedy="the image was probably pushed manually: delete it",
            ) from None
        if code not in ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException"):
            raise


@dataclass(frozen=True)
class _Layer:
    digest: str
    size: int
    """From the image's manifest."""
    registry: str
    """For messages."""
    link: Callable[[], str]
    """Return a presigned URL."""


def _parts(layer: _Layer, part_size: int, sleep: Sleep) -> Iterator[bytes]:
    """Yield the layer in parts of one size; the last one may be smaller."""
    buffer = bytearray()
    for block in _blocks(layer, sleep):
        buffer += block
        while len(buffer) >= part_size:
            yield bytes(buffer[:part_size])
            del buffer[:part_size]
    if buffer:
        yield bytes(buffer)


def _bad_layer(layer: _Layer, failure: str) -> CopyError:
    return CopyError(
        f"damaged layer {layer.digest} of {layer.registry}: {failure}; nothing was copied",
        remedy="rerun the command; if it fails again, rebuild the image",
    )


def _blocks(layer: _Layer, sleep: Sleep) -> Iterator[bytes]:
    """Yield blocks as they arrive.

    Python's client silently returns less if the server closes the connection (cpython issue 115997), so the
    received bytes are compared with the size in the manifest.
    """

    def read_from(have: int) -> Iterator[bytes]:
        with _opened(layer.link(), have) as answer:
            _skip(answer, layer, have)
            # read1 returns partial data; a longer read would lose it if the connection drops.
            while have < layer.size and (block := answer.read1(min(CHUNK, layer.size - have))):
                have += len(block)
                yield block

    def give_up(have: int, failure: str) -> CopyError:
        return CopyError(
            f"cannot read layer {layer.digest} of {layer.registry}: the connection failed after {have} of "
            f"{layer.size} bytes, and reconnecting did not help ({failure})",
            remedy="check the connection to Amazon S3, and rerun the command; it resumes with this layer",
        )

    yield from read_all(read_from, layer.size, breaks=_BREAKS, sleep=sleep, give_up=give_up)


def _opened(url: str, first: int) -> HTTPResponse:
    if not url.startswith(("https://", "http://127.0.0.1")):
        raise CopyError(
            f"ECR returned a layer URL without https: {url.partition('?')[0]}",
            remedy="check the proxy and the endpoint URL of ECR (AWS_ENDPOINT_URL_ECR)",
        )
    headers = {"Range": f"bytes={first}-"} if first else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - looked at above
    opened: HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE_S)  # noqa: S310 - the same
    return opened


def _skip(answer: HTTPResponse, layer: _Layer, have: int) -> None:
    """Skip bytes that have arrived: a server may ignore the range and send the whole layer."""
    begin, size = _extent(answer)
    if size not in (None, layer.size):
        raise _bad_layer(layer, f"got {size} bytes, manifest expects {layer.size}")
    if begin > have:
        raise HTTPException(f"requested byte {have}, but the response starts with byte {begin}")
    remaining = have - begin
    while remaining and (block := answer.read1(min(CHUNK, remaining))):
        remaining -= len(block)


def _extent(answer: HTTPResponse) -> tuple[int, int | None]:
    """Return the first byte of a response, and the total size if given."""
    if answer.status != HTTPStatus.PARTIAL_CONTENT:
        length = answer.headers.get("Content-Length")
        return 0, int(length) if length else None
    content_range = answer.headers.get("Content-Range", "")
    match = _RANGE.fullmatch(content_range)
    if match is None:
        raise HTTPException(f"invalid Content-Range {content_range!r}")
    return int(match[1]), int(match[2])

"""Images from one ECR registry to another through ECR's own API, by digest: no Docker, nothing on disk.

A manifest is copied byte for byte, so the image keeps its digest; ECR refuses a layer or a manifest that is
not what its digest says. Layers are found by their content: what an earlier run has brought is not sent
again.
A call whose answer was lost is made again by AWS's client, and ECR refuses what it has done already.
The repository that an image lands in encrypts it with its own key.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from tritonstack.base.errors import TritonstackError
from tritonstack.operations.aws import Cloud, error_code
from tritonstack.operations.promotion.layer_reading import Layer, bad_layer, read_parts

_INDEXES = (
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.index.v1+json",
)
_MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
)
_LAYERS_ASKED_AT_ONCE = 100
_ENDED_BEFORE = ("LayerAlreadyExistsException", "UploadNotFoundException")

OnBytes = Callable[[int], None]


class ImageCopyError(TritonstackError):
    """An image could not be copied, or is not what its digest says."""


@dataclass(frozen=True)
class Registry:
    """One repository of one account."""

    cloud: Cloud
    repository: str

    @property
    def place(self) -> dict[str, str]:
        """How ECR's calls name it."""
        return {"registryId": self.cloud.account, "repositoryName": self.repository}

    @property
    def words(self) -> str:
        """It for people."""
        return f"{self.cloud.account}.dkr.ecr.{self.cloud.region}.amazonaws.com/{self.repository}"


@dataclass(frozen=True)
class _Manifest:
    digest: str
    media_type: str
    text: str

    @property
    def members(self) -> Sequence[Mapping[str, Any]]:
        """The images of a list of them."""
        return json.loads(self.text).get("manifests", ()) if self.media_type in _INDEXES else ()

    @property
    def blobs(self) -> list[Mapping[str, Any]]:
        """What an image consists of, each piece once; pieces that stay where their URLs lead are none."""
        held = json.loads(self.text)
        pieces = [held["config"], *held["layers"]] if self.media_type not in _INDEXES else []
        return list({piece["digest"]: piece for piece in pieces if not piece.get("urls")}.values())


def image_bytes(source: Registry, target: Registry, digest: str) -> int:
    """What copying an image would have to carry."""
    return sum(
        piece["size"] for manifest in _tree(source, digest) for piece in _missing(target, manifest.blobs)
    )


def copy_image(
    source: Registry,
    target: Registry,
    *,
    digest: str,
    tag: str,
    on_bytes: OnBytes,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """See that the target holds an image under a tag; whether anything had to be done for it."""
    if tagged_digest(target, tag) == digest:
        return False
    for manifest in _tree(source, digest):
        for piece in _missing(target, manifest.blobs):
            _copy_layer(_layer(source, piece), target, on_bytes, sleep)
        _put(target, manifest, tag if manifest.digest == digest else None)
    landed = tagged_digest(target, tag)
    if landed != digest:
        raise ImageCopyError(
            f"{target.words}:{tag} is {landed or 'not there'} after {digest} was copied to it",
            remedy="look for what changes or deletes images there, and run the same command again",
        )
    return True


def tagged_digest(registry: Registry, tag: str) -> str | None:
    """The digest of what a tag means, None where it means nothing."""
    ecr = registry.cloud.client("ecr")
    try:
        found = ecr.describe_images(**registry.place, imageIds=[{"imageTag": tag}])
    except ClientError as error:
        if error_code(error) == "ImageNotFoundException":
            return None
        raise
    return str(found["imageDetails"][0]["imageDigest"])


def _tree(source: Registry, digest: str) -> Iterator[_Manifest]:
    """An image's manifest, after those of the images that it lists: ECR takes a list last."""
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
        raise ImageCopyError(
            f"{source.words}@{digest} cannot be read: {reason or 'it is not there'}",
            remedy="build it in the environment that it comes from: `tritonstack build` pushes it",
        )
    (image,) = answer["images"]
    text = image["imageManifest"]
    found = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    if found != digest:
        raise ImageCopyError(f"{source.words}@{digest} has a manifest whose digest is {found}")
    media_type = image.get("imageManifestMediaType") or json.loads(text)["mediaType"]
    return _Manifest(digest, media_type, text)


def _missing(target: Registry, blobs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Those that the target does not hold."""
    ecr = target.cloud.client("ecr")
    for start in range(0, len(blobs), _LAYERS_ASKED_AT_ONCE):
        asked = blobs[start : start + _LAYERS_ASKED_AT_ONCE]
        answer = ecr.batch_check_layer_availability(
            **target.place, layerDigests=[piece["digest"] for piece in asked]
        )
        there = {
            layer["layerDigest"] for layer in answer["layers"] if layer["layerAvailability"] == "AVAILABLE"
        }
        yield from (piece for piece in asked if piece["digest"] not in there)


def _layer(source: Registry, piece: Mapping[str, Any]) -> Layer:
    ecr, digest = source.cloud.client("ecr"), piece["digest"]

    def link() -> str:
        return str(ecr.get_download_url_for_layer(**source.place, layerDigest=digest)["downloadUrl"])

    return Layer(digest, piece["size"], source.words, link)


def _copy_layer(layer: Layer, target: Registry, on_bytes: OnBytes, sleep: Callable[[float], object]) -> None:
    ecr, hashed, first = target.cloud.client("ecr"), hashlib.sha256(), 0
    upload = ecr.initiate_layer_upload(**target.place)
    for part in read_parts(layer, upload["partSize"], sleep=sleep):
        hashed.update(part)
        _send(target, upload["uploadId"], first, part)
        first += len(part)
        on_bytes(len(part))
    if (found := f"sha256:{hashed.hexdigest()}") != layer.digest:
        raise bad_layer(layer, f"is {found}")
    try:
        ecr.complete_layer_upload(**target.place, uploadId=upload["uploadId"], layerDigests=[layer.digest])
    except ClientError as error:
        # Somebody else was faster, or this is the second time: what counts is that it is there.
        if error_code(error) not in _ENDED_BEFORE or any(_missing(target, [{"digest": layer.digest}])):
            raise


def _send(target: Registry, upload: str, first: int, part: bytes) -> None:
    """The next part of a layer; one that ECR has had already follows nothing, and is there."""
    last = first + len(part) - 1
    try:
        target.cloud.client("ecr").upload_layer_part(
            **target.place, uploadId=upload, partFirstByte=first, partLastByte=last, layerPartBlob=part
        )
    except ClientError as error:
        if error_code(error) != "InvalidLayerPartException":
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
        code = error_code(error)
        if code == "ImageTagAlreadyExistsException" and tag and tagged_digest(target, tag) != manifest.digest:
            raise ImageCopyError(
                f"{target.words}:{tag} is another image already, and tags never change there",
                remedy="an image that somebody pushed by hand has this tag: delete it there",
            ) from None
        if code not in ("ImageAlreadyExistsException", "ImageTagAlreadyExistsException"):
            raise

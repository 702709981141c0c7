"""A stand-in for two ECR registries with layers, as strict as ECR; moto stores no layers.

Layers are downloaded from a server on loopback, as ECR has them downloaded from S3.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.operate.strict_aws import checked, client_error

PART = 7
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI = "application/vnd.oci.image.manifest.v1+json"


def digest_of(content: bytes | str) -> str:
    body = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True)
class Break:
    """How a download fails."""

    after: int | None = None
    """So many bytes come."""
    reset: bool = False
    ignores_range: bool = False


@dataclass
class StrictEcr:
    """One repository with immutable tags, in its account."""

    account: str
    repository: str
    url: str = ""
    region: str = "eu-west-1"
    layers: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, str]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    """Those that were asked for; each leads to its layer once."""
    breaks: list[Break] = field(default_factory=list)
    """How the next connections end; whole, where nothing is said."""
    ranges: list[str | None] = field(default_factory=list)
    """What of layers was asked for."""

    def client(self, service: str) -> StrictEcr:
        """Return itself as its ECR client."""
        assert service == "ecr"
        return self

    def push(self, *layers: bytes) -> str:
        """Push an image of these layers as Docker does; return its digest."""
        config = json.dumps({"layers": len(layers)}).encode()
        pieces = [{"digest": digest_of(piece), "size": len(piece)} for piece in (config, *layers)]
        self.layers |= {digest_of(piece): piece for piece in (config, *layers)}
        manifest = {"schemaVersion": 2, "mediaType": OCI, "config": pieces[0], "layers": pieces[1:]}
        return self.push_manifest(manifest)

    def push_manifest(self, manifest: dict[str, Any]) -> str:
        text = json.dumps(manifest, indent=3)
        self.manifests[digest_of(text)] = (manifest["mediaType"], text)
        return digest_of(text)

    def push_index(self, *members: str) -> str:
        """Push an image index."""
        listed = [{"digest": member, "size": 1, "mediaType": OCI} for member in members]
        return self.push_manifest({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed})

    def describe_images(self, **parameters: Any) -> dict[str, Any]:
        self._check("DescribeImages", parameters)
        tag = parameters["imageIds"][0]["imageTag"]
        if tag not in self.tags:
            raise client_error("DescribeImages", "ImageNotFoundException", "no such image")
        return {"imageDetails": [{"imageDigest": self.tags[tag]}]}

    def batch_get_image(self, **parameters: Any) -> dict[str, Any]:
        self._check("BatchGetImage", parameters)
        digest = parameters["imageIds"][0]["imageDigest"]
        if digest not in self.manifests:
            return {"images": [], "failures": [{"failureReason": "Requested image not found"}]}
        media_type, text = self.manifests[digest]
        assert media_type in parameters["acceptedMediaTypes"]
        return {"images": [{"imageManifest": text, "imageManifestMediaType": media_type}], "failures": []}

    def get_download_url_for_layer(self, **parameters: Any) -> dict[str, Any]:
        self._check("GetDownloadUrlForLayer", parameters)
        assert parameters["layerDigest"] in self.layers
        self.links.append(f"/{parameters['layerDigest']}?signature={len(self.calls)}")
        return {"downloadUrl": f"{self.url}{self.links[-1]}"}

    def batch_check_layer_availability(self, **parameters: Any) -> dict[str, Any]:
        self._check("BatchCheckLayerAvailability", parameters)
        assert 1 <= len(parameters["layerDigests"]) <= 100
        return {
            "layers": [
                {
                    "layerDigest": digest,
                    "layerAvailability": "AVAILABLE" if digest in self.layers else "UNAVAILABLE",
                }
                for digest in parameters["layerDigests"]
            ],
            "failures": [],
        }

    def initiate_layer_upload(self, **parameters: Any) -> dict[str, Any]:
        self._check("InitiateLayerUpload", parameters)
        name = f"upload-{len(self.calls)}"
        self.uploads[name] = bytearray()
        return {"uploadId": name, "partSize": PART}

    def upload_layer_part(self, **parameters: Any) -> None:
        self._check("UploadLayerPart", parameters)
        held, blob = self._upload("UploadLayerPart", parameters), parameters["layerPartBlob"]
        expected, reason = (len(held), len(held) + len(blob) - 1), ""
        if (parameters["partFirstByte"], parameters["partLastByte"]) != expected:
            reason = f"not consecutive: expected {expected}"
        elif len(held) % PART:
            reason = "only the last part may be small"
        if reason:
            received = {"uploadId": parameters["uploadId"], "lastValidByteReceived": len(held) - 1}
            raise client_error("UploadLayerPart", "InvalidLayerPartException", reason, **received)
        held += blob

    def complete_layer_upload(self, **parameters: Any) -> None:
        self._check("CompleteLayerUpload", parameters)
        content = bytes(self._upload("CompleteLayerUpload", parameters))
        del self.uploads[parameters["uploadId"]]
        (digest,) = parameters["layerDigests"]
        if digest_of(content) != digest:
            raise client_error("CompleteLayerUpload", "InvalidLayerException", "not what its digest says")
        if digest in self.layers:
            raise client_error("CompleteLayerUpload", "LayerAlreadyExistsException", "it is there")
        self.layers[digest] = content

    def put_image(self, **parameters: Any) -> None:
        self._check("PutImage", parameters)
        text, digest = parameters["imageManifest"], parameters["imageDigest"]
        held, tag = json.loads(text), parameters.get("imageTag")
        if digest_of(text) != digest:
            raise client_error("PutImage", "ImageDigestDoesNotMatchException", "not what its digest says")
        if {item["digest"] for item in held.get("manifests", ())} - set(self.manifests):
            raise client_error("PutImage", "ReferencedImagesNotFoundException", "members are missing")
        pieces = [held["config"], *held["layers"]] if "config" in held else []
        if {piece["digest"] for piece in pieces if "urls" not in piece} - set(self.layers):
            raise client_error("PutImage", "LayersNotFoundException", "layers are missing")
        if tag and self.tags.get(tag, digest) != digest:
            raise client_error("PutImage", "ImageTagAlreadyExistsException", "tags are immutable")
        if digest in self.manifests and (tag is None or self.tags.get(tag) == digest):
            raise client_error("PutImage", "ImageAlreadyExistsException", "it is there")
        self.manifests[digest] = (parameters["imageManifestMediaType"], text)
        if tag:
            self.tags[tag] = digest

    def _upload(self, operation: str, parameters: dict[str, Any]) -> bytearray:
        if parameters["uploadId"] not in self.uploads:
            raise client_error(operation, "UploadNotFoundException", "The upload could not be found")
        return self.uploads[parameters["uploadId"]]

    def _check(self, operation: str, parameters: dict[str, Any]) -> None:
        checked("ecr", operation, parameters)
        assert (parameters["registryId"], parameters["repositoryName"]) == (self.account, self.repository)
        self.calls.append(operation)


@contextmanager
def served(registry: StrictEcr) -> Iterator[StrictEcr]:
    """Serve its layers by link."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer as S3 does: with the length always, and a range if one is requested."""
            if self.path not in registry.links:
                self.send_error(HTTPStatus.FORBIDDEN, "Request has expired")
                return
            registry.links.remove(self.path)
            registry.ranges.append(self.headers["Range"])
            broken = registry.breaks.pop(0) if registry.breaks else Break()
            whole = registry.layers[self.path[1:].partition("?")[0]]
            requested = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
            first = int(requested[1]) if requested and not broken.ignores_range else 0
            if first >= len(whole):
                self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                return
            self.send_response(HTTPStatus.PARTIAL_CONTENT if first else HTTPStatus.OK)
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(whole) - 1}/{len(whole)}")
            self.send_header("Content-Length", str(len(whole) - first))
            self.end_headers()
            self.wfile.write(whole[first:][: broken.after])
            if broken.reset:
                self.wfile.flush()
                # Closed like this, the connection is reset and not ended.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                socket.socket(fileno=self.connection.detach()).close()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""Correct moto's ECR images: identify them by manifest digest, and require their layers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moto.ecr.exceptions import ValidationException
from moto.ecr.models import ECRBackend

from tritonstack_local.ecr.app import layers_not_found
from tritonstack_local.ecr.layers import LayerRepository, Layers
from tritonstack_local.identity.scope import Scope
from tritonstack_local.moto_patches.patching import correct

_put_image = ECRBackend.put_image


def apply(layers: Layers) -> None:
    """Correct moto."""

    def put_image(
        backend: Any,
        repository_name: str,
        image_manifest: str,
        image_tag: str,
        image_manifest_mediatype: str | None = None,
        digest: str | None = None,
    ) -> Any:
        found = f"sha256:{hashlib.sha256(image_manifest.encode()).hexdigest()}"
        if digest not in {None, found}:
            message = f"The given digest {digest} is not that of the manifest, {found}"
            raise _refusal("ImageDigestDoesNotMatchException", message)
        _check_layers(layers, backend, repository_name, image_manifest)
        return _put_image(
            backend, repository_name, image_manifest, image_tag, image_manifest_mediatype, found
        )

    correct((ECRBackend, "put_image", put_image))


def _check_layers(layers: Layers, backend: Any, name: str, manifest: str) -> None:
    held = backend.repositories.get(name)
    if held is None:
        return  # moto says so
    scope = Scope(backend.account_id, backend.region_name)
    repository = LayerRepository.made_at(scope, name, held.created_at)
    wanted = [layer["digest"] for layer in json.loads(manifest).get("layers", ())]
    missing = [digest for digest in wanted if layers.find(repository, digest) is None]
    if missing:
        fault = layers_not_found(missing, name, scope.account)
        raise _refusal(fault.code, fault.message)


def _refusal(code: str, message: str) -> ValidationException:
    """Return an error that moto serializes by the model of its class's service."""
    refusal = ValidationException(message)
    refusal.code = code
    return refusal

"""Correct moto's ECR: AWS's own registries have SageMaker's Triton images, which every account may pull."""

from __future__ import annotations

from typing import Any

from moto.ecr.models import ECRBackend, Image

from tritonstack.facts.images import ACCOUNTS, REPOSITORY, has_image, image_tag
from tritonstack.facts.releases import RELEASES

_MANIFEST = '{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}'
_batch_get_image = ECRBackend.batch_get_image


def _batch_get_image_of_registry(
    backend: Any,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, Any]] | None = None,
) -> Any:
    region = backend.region_name
    if (registry_id, repository_name) != (ACCOUNTS.get(region), REPOSITORY):
        return _batch_get_image(backend, repository_name, registry_id, image_ids)
    tags = {
        image_tag(release=release, gpu=gpu)
        for release in RELEASES
        if has_image(region=region, release=release)
        for gpu in (True, False)
    }
    answer: dict[str, list[Any]] = {"images": [], "failures": []}
    for image_id in image_ids or ():
        tag = image_id.get("imageTag")
        if tag in tags:
            answer["images"].append(Image(str(registry_id), tag, _MANIFEST, repository_name))
        else:
            failure = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            answer["failures"].append({"imageId": image_id, **failure})
    return answer


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    (ECRBackend, "batch_get_image", _batch_get_image_of_registry),
)

"""Correct moto: images of AWS's own registries, and service quotas.

The registries have SageMaker's Triton images, which every account may pull. moto has the default quotas of
VPC only; those that an environment counts limit nothing here, so each has the same high value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moto.ecr.models import ECRBackend, Image
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS
from moto.servicequotas.responses import ServiceQuotasResponse

from tritonstack.base.files import parse_json
from tritonstack.facts.hardware import INSTANCE_TYPES
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


_OF_IMAGES: tuple[tuple[Any, str, Any], ...] = (
    (ECRBackend, "batch_get_image", _batch_get_image_of_registry),
)


VALUE = 1000.0
_SIZES = ("Small", "Medium", "Large", "XLarge", "2XLarge")
_NAMES = {
    "application-autoscaling": ("Scalable targets for SageMaker",),
    "codebuild": tuple(
        f"Concurrently running builds for Linux{machine}{size} environment"
        for machine in ("/", " GPU ")
        for size in _SIZES
    ),
    "sagemaker": (
        "Number of instances across active endpoints",
        *(
            f"{instance} for {usage} usage"
            for instance in INSTANCE_TYPES
            for usage in ("endpoint", "processing job")
        ),
    ),
}


def _list_quotas(_backend: Any, service_code: str) -> list[dict[str, Any]]:
    if service_code == "vpc":
        return VPC_DEFAULT_QUOTAS
    if service_code not in _NAMES:
        raise NoSuchResource
    return [
        {
            "ServiceCode": service_code,
            "QuotaCode": f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}",
            "QuotaName": name,
            "Value": VALUE,
            "Adjustable": True,
            "GlobalQuota": False,
        }
        for name in _NAMES[service_code]
    ]


def _list_service_quotas(response: Any) -> str:
    service_code = str(parse_json(response.body).get("ServiceCode"))
    return json.dumps({"Quotas": response.backend.list_aws_default_service_quotas(service_code)})


CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    *_OF_IMAGES,
    (ServiceQuotasBackend, "list_aws_default_service_quotas", _list_quotas),
    (ServiceQuotasResponse, "list_service_quotas", _list_service_quotas),
)

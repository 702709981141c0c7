"""Correct moto's Service Quotas, which has the defaults of VPC only: list those that an environment counts.

They limit nothing here, so each has the same high value.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.resources.default_quotas.vpc import VPC_DEFAULT_QUOTAS
from moto.servicequotas.responses import ServiceQuotasResponse

from tritonstack.base.files import parse_json
from tritonstack.facts.hardware import INSTANCE_TYPES

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
    (ServiceQuotasBackend, "list_aws_default_service_quotas", _list_quotas),
    (ServiceQuotasResponse, "list_service_quotas", _list_service_quotas),
)

"""The local cloud's own HTTP routes, signed like AWS requests."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tritonstack.base.files import parse_json

INVENTORY_PATH = "/_tritonstack/inventory"
SERVICE = "tritonstack"
"""The signing name of these routes."""


def read_inventory(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """List the resources of the cloud that `variables` (of `tritonstack up --shell`) point to."""
    url = f"{variables['AWS_ENDPOINT_URL']}{INVENTORY_PATH}"
    request = AWSRequest("GET", url)
    keys = Credentials(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"])
    SigV4Auth(keys, SERVICE, variables["AWS_REGION"]).add_auth(request)
    signed = urllib.request.Request(url, headers=dict(request.headers.items()))  # noqa: S310 - loopback
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(signed) as answer:
        items: list[dict[str, Any]] = parse_json(answer.read())
    return items

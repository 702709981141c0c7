"""AWS's own managed policies, read once: moto reads all 1,500 of them anew for every account it makes."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Any

from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.models import AWSManagedPolicy, IAMBackend
from moto.settings import load_iam_aws_managed_policies


def policies_of_aws(backend: IAMBackend) -> list[AWSManagedPolicy]:
    """Make the policies of one account, in which they are attached and counted."""
    if not load_iam_aws_managed_policies():
        return []
    account, region = backend.account_id, backend.region_name
    make: Any = AWSManagedPolicy  # which mypy takes for abstract, as moto does not say otherwise
    return [make(**policy, account_id=account, region=region) for policy in _published()]


@cache
def _published() -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "default_version_id": published["DefaultVersionId"],
            "path": published["Path"],
            "document": json.dumps(published["Document"]),
            "create_date": datetime.fromisoformat(published["CreateDate"]),
            "update_date": datetime.fromisoformat(published["UpdateDate"]),
        }
        for name, published in json.loads(aws_managed_policies_data).items()
    ]

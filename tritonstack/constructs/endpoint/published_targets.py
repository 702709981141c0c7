"""Publish the model names of a multi-model endpoint, so that callers need not know digests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from zlib import crc32

from aws_cdk import aws_ssm as ssm
from constructs import Construct

PAGE_BYTES = 4096
"""Limit of a standard SSM parameter, which costs nothing."""


class PublishedTargets(Construct):
    """Create SSM parameters under one path; each holds a JSON object of names and TargetModels.

    A client reads them all with GetParametersByPath. One parameter holds about 35 models.
    """

    def __init__(self, scope: Construct, construct_id: str, *, path: str, targets: Mapping[str, str]) -> None:
        super().__init__(scope, construct_id)
        pages = [
            ssm.CfnParameter(
                self,
                f"Page{number}",
                name=f"{path}/{number}",
                type="String",
                value=page,
                description="TargetModel of each model, by name",
            )
            for number, page in enumerate(target_pages(targets))
        ]
        # More models move names to later pages: those come first, so that callers always find each name.
        for page, later in pairwise(pages):
            page.add_resource_dependency(later)


def target_pages(targets: Mapping[str, str]) -> list[str]:
    """Divide a mapping into JSON objects that fit into one parameter each.

    A name's page depends on its hash, so that another model changes one page only.
    """
    count = 1
    while True:
        pages: list[dict[str, str]] = [{} for _ in range(count)]
        for name, target in sorted(targets.items()):
            pages[crc32(name.encode()) % count][name] = target
        texts = [json.dumps(page, separators=(",", ":")) for page in pages]
        if all(len(text) <= PAGE_BYTES for text in texts):
            return texts
        count *= 2

"""Inputs of a model construct: model data, image, and network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritonstack.base.error_kinds import ConstructError
from tritonstack.base.yaml import closest
from tritonstack.facts import images
from tritonstack.facts.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.facts.releases import RELEASES, TritonRelease
from tritonstack.facts.threads import GRAPH_INSTANCES

_S3_URL = re.compile(r"s3://(?P<bucket>[^/]+)/(?P<key>.*)")
_ECR_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<name>[^:@]+)(?:[:@].+)?"
)


@dataclass(frozen=True, kw_only=True)
class _ModelData:
    keeps_answers: bool = False
    """Whether the server needs a response cache."""
    instances: int = GRAPH_INSTANCES
    """The most instances that one of its models has on a CPU; sets the number of threads. Of a prefix, it is
    constant, so that new models change nothing in the stack."""
    graphs_decide_threads: bool = False
    """Whether an ONNX model sets the threads of its session."""
    least_threads: int = 0
    """The most threads that a tree model asks for; OpenMP must allow that many."""


@dataclass(frozen=True)
class ModelArchive(_ModelData):
    """One archive: a model, or an ensemble with its components."""

    url: str
    """s3://<bucket>/<key> of the model.tar.gz."""
    entry_model: str
    """The model in it that callers invoke."""
    versions_prefix: str | None = None
    """The key prefix of all versions of the archive, and of models that the endpoint may change to. Without
    it, only this archive is readable, and new instances cannot fetch the previous version during a rollback.
    """
    generates: bool = False
    """Whether it is a generative language model."""
    streams: bool = False
    """Whether it sends any number of responses per request."""


@dataclass(frozen=True)
class ModelPrefix(_ModelData):
    """An S3 prefix that holds the archives of a multi-model endpoint."""

    url: str
    """s3://<bucket>/<prefix>/, the base of each TargetModel."""
    cache: bool = True
    """Keep models loaded between requests; if false, each request loads its model."""


@dataclass(frozen=True)
class TritonImage:
    """SageMaker's Triton image for an instance type, or an image derived from it."""

    release: str
    """The Triton release, for example 26.05."""
    instance_type: str
    """The instance type, which selects the GPU or the CPU image."""
    extended: str | None = None
    """URI of a custom image that was derived from it."""

    @property
    def triton(self) -> TritonRelease:
        """Return the release's record."""
        if self.release not in RELEASES:
            raise ConstructError(
                f"unknown Triton release {self.release!r}", remedy=f"choose one of: {', '.join(RELEASES)}"
            )
        return RELEASES[self.release]

    def uri(self, region: str) -> str:
        """Return the image URI for a region."""
        if self.extended:
            return self.extended
        gpu = instance_named(self.instance_type).family.accelerator == "gpu"
        return images.image_uri(region=region, release=self.triton.name, gpu=gpu)


@dataclass(frozen=True)
class ModelNetwork:
    """The VPC configuration of a model's containers."""

    subnet_ids: list[str]
    """Private subnets."""
    security_group_ids: list[str]
    """The security groups of the containers."""


def instance_named(instance_type: str) -> InstanceType:
    """Return the record of an instance type."""
    if instance_type not in INSTANCE_TYPES:
        suggestion = closest(instance_type, INSTANCE_TYPES)
        raise ConstructError(
            f"unknown instance type {instance_type!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else "write it like ml.c7i.xlarge",
        )
    return INSTANCE_TYPES[instance_type]


def split_s3_url(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URL."""
    match = _S3_URL.fullmatch(url)
    if match is None:
        raise ConstructError(f"{url!r} is not an S3 URL", remedy="write s3://<bucket>/<key>")
    return match["bucket"], match["key"]


def split_image_uri(uri: str) -> tuple[str, str, str]:
    """Return the account, region, and repository of an ECR image."""
    match = _ECR_URI.fullmatch(uri)
    if match is None:
        raise ConstructError(
            f"{uri!r} is not an ECR image URI",
            remedy=(
                "write <account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>, or pass a TritonImage "
                "for SageMaker's own image"
            ),
        )
    return match["account"], match["region"], match["name"]

"""What a model's construct is told: which data it serves, in which image, and in which network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tritonstack.base.documents import closest
from tritonstack.base.errors import UsageError
from tritonstack.reference import images
from tritonstack.reference.hardware import INSTANCE_TYPES, InstanceType
from tritonstack.reference.releases import RELEASES, TritonRelease

_S3_URL = re.compile(r"s3://(?P<bucket>[^/]+)/(?P<key>.*)")
_ECR_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<name>[^:@]+)(?:[:@].+)?"
)


@dataclass(frozen=True)
class ModelArchive:
    """One archive: a model, or an ensemble with its parts."""

    url: str
    """s3://<bucket>/<key> of the model.tar.gz."""
    entry_model: str
    """The model in it that callers reach."""
    versions_prefix: str | None = None
    """The keys that the archive's earlier and later versions begin with; nothing but the archive itself is
    readable if not given, and then an update cannot be rolled back on machines that start meanwhile."""
    keeps_answers: bool = False
    """Whether the server needs a response cache."""
    generates: bool = False
    """Whether it answers in parts, as language models do."""


@dataclass(frozen=True)
class ModelShelf:
    """A prefix that holds the archives of a multi-model endpoint."""

    url: str
    """s3://<bucket>/<prefix>/ that TargetModels are found under."""
    cache: bool = True
    """Keep models loaded between requests; off, each request loads its model anew."""
    keeps_answers: bool = False
    """Whether the server needs a response cache."""


@dataclass(frozen=True)
class TritonImage:
    """SageMaker's own Triton image for a kind of machine, or one that extends it."""

    release: str
    """The Triton release, for example 26.05."""
    instance_type: str
    """The kind of machine, which decides between the image for GPUs and the one for CPUs."""
    extended: str | None = None
    """URI of an image of one's own that was made from it."""

    @property
    def triton(self) -> TritonRelease:
        """What the image carries."""
        if self.release not in RELEASES:
            raise UsageError(
                f"SageMaker has no image of Triton {self.release!r}",
                remedy=f"choose one of {', '.join(RELEASES)}",
            )
        return RELEASES[self.release]

    def uri(self, region: str) -> str:
        """Where the image lies for a region."""
        if self.extended:
            return self.extended
        gpu = instance_named(self.instance_type).family.accelerator == "gpu"
        return images.image_uri(region=region, release=self.triton.name, gpu=gpu)


@dataclass(frozen=True)
class ModelNetwork:
    """Where a model's containers stand in a network of one's own."""

    subnet_ids: list[str]
    """Private subnets."""
    security_group_ids: list[str]
    """What they may reach."""


def instance_named(instance_type: str) -> InstanceType:
    """The machine behind an instance type's name."""
    if instance_type not in INSTANCE_TYPES:
        suggestion = closest(instance_type, INSTANCE_TYPES)
        raise UsageError(
            f"SageMaker has no instance type {instance_type!r}",
            remedy=f"did you mean '{suggestion}'?" if suggestion else "types read like ml.c7i.xlarge",
        )
    return INSTANCE_TYPES[instance_type]


def split_s3_url(url: str) -> tuple[str, str]:
    """The bucket and the key of an S3 URL."""
    match = _S3_URL.fullmatch(url)
    if match is None:
        raise UsageError(f"{url!r} is no S3 URL", remedy="write s3://<bucket>/<key>")
    return match["bucket"], match["key"]


def split_image_uri(uri: str) -> tuple[str, str, str]:
    """The account, the region and the repository of an image in ECR."""
    match = _ECR_URI.fullmatch(uri)
    if match is None:
        raise UsageError(
            f"{uri!r} does not say which ECR repository the image lies in",
            remedy="write <account>.dkr.ecr.<region>.amazonaws.com/<repository>:<tag>, "
            "or give a TritonImage for SageMaker's own",
        )
    return match["account"], match["region"], match["name"]

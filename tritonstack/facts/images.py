"""SageMaker's Triton images: registry account per region, and image URIs.

The SageMaker SDK has the same table but weighs hundreds of megabytes; a test checks that they are equal.
"""

from __future__ import annotations

from tritonstack.base.error_kinds import RegionError
from tritonstack.base.yaml import suggest

REPOSITORY = "sagemaker-tritonserver"

_SHARED_ACCOUNT = "763104351884"
_SHARED_REGIONS = (
    "ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-1 ap-southeast-2 ca-central-1 eu-central-1 "
    "eu-north-1 eu-west-1 eu-west-2 eu-west-3 sa-east-1 us-east-1 us-east-2 us-west-1 us-west-2"
)

ACCOUNTS: dict[str, str] = {
    **dict.fromkeys(_SHARED_REGIONS.split(), _SHARED_ACCOUNT),
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-east-2": "975050140332",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-6": "633930458069",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
}

FIRST_RELEASES: dict[str, str] = {
    "ap-east-2": "25.04",
    "ap-south-2": "25.04",
    "ap-southeast-4": "25.04",
    "ap-southeast-5": "25.04",
    "ap-southeast-6": "25.09",
    "ap-southeast-7": "25.04",
    "eu-central-2": "25.04",
    "eu-south-2": "25.04",
    "me-central-1": "25.04",
    "mx-central-1": "25.04",
}
"""First release available in regions that got the image later than others."""


_PARTITIONS = {
    "cn-": "the AWS China partition",
    "us-gov-": "the AWS GovCloud (US) partition",
    "us-iso": "the AWS ISO partitions",
    "eu-iso": "the AWS ISO partitions",
    "eusc-": "the AWS European Sovereign Cloud",
}
"""Partitions other than `aws`, by region prefix. The stacks write ARNs of `aws` only."""


def region_violation(region: str) -> tuple[str, str] | None:
    """Return why endpoints cannot run in a region, and the remedy; None if they can."""
    if region in ACCOUNTS:
        return None
    others = f"choose one of {', '.join(sorted(ACCOUNTS))}"
    for start, partition in _PARTITIONS.items():
        if region.startswith(start):
            return f"{partition} is not supported, got region {region!r}", others
    return (
        f"SageMaker publishes no Triton image in region {region!r}",
        suggest(region, ACCOUNTS, others),
    )


def image_account(region: str) -> str:
    """Return the account that hosts the Triton image in a region."""
    if violation := region_violation(region):
        message, remedy = violation
        raise RegionError(message, remedy=remedy)
    return ACCOUNTS[region]


def has_image(*, region: str, release: str) -> bool:
    """Check whether a region has the image of a release; releases sort as text."""
    return region in ACCOUNTS and release >= FIRST_RELEASES.get(region, "")


def image_tag(*, release: str, gpu: bool) -> str:
    """Return the tag of a release's image."""
    return f"{release}-py3" if gpu else f"{release}-py3-cpu"


def image_uri(*, region: str, release: str, gpu: bool) -> str:
    """Return the URI of the image that an endpoint in a region runs."""
    account = image_account(region)
    if not has_image(region=region, release=release):
        raise RegionError(
            f"SageMaker has no image of Triton {release} in region {region!r}",
            remedy=f"choose {FIRST_RELEASES[region]} or later",
        )
    registry = f"{account}.dkr.ecr.{region}.amazonaws.com"
    return f"{registry}/{REPOSITORY}:{image_tag(release=release, gpu=gpu)}"

"""What the SageMaker providers share: names in ARNs, tags, and how SageMaker says that something is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import ClientError

from tritonstack_local.cloudformation.providers.base import ResourceRequest


def change_tags(request: ResourceRequest, arn: str, previous: ResourceRequest) -> None:
    """Bring a resource's tags to what the template says."""
    sagemaker = request.client("sagemaker")
    kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
    gone = [tag["Key"] for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
    if gone:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=gone)
    if request.properties.get("Tags"):
        sagemaker.add_tags(ResourceArn=arn, Tags=request.value("Tags"))


def name_of(request: ResourceRequest, prop: str, arn: str) -> str:
    """Return a resource's name: the one the template gives, or the made-up one at the end of its ARN.

    SageMaker writes names in lower case into ARNs, so that only made-up names can be read from there.
    """
    return str(request.properties.get(prop, arn.rsplit("/", 1)[1]))


def is_gone(error: ClientError) -> bool:
    """Tell whether SageMaker says that a resource does not exist; it has no code for that."""
    answer = error.response["Error"]
    return answer["Code"] == "ValidationException" and "could not find" in answer["Message"].lower()


@contextmanager
def unless_gone() -> Iterator[None]:
    """Carry out a deletion; that there is nothing to delete counts as success."""
    try:
        yield
    except ClientError as error:
        if not is_gone(error):
            raise

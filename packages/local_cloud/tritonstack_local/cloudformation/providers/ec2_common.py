"""What the EC2 providers share: tags, and the codes by which EC2 says that something is gone."""

from __future__ import annotations

from tritonstack_local.cloudformation.providers.base import Property, ResourceRequest

TAGS = Property(shape="ec2:TagList")
NO_NETWORK = "There is no network behind it; a model reaches none, whatever its endpoint's."


def put_tags(request: ResourceRequest, physical_id: str) -> None:
    """Set the tags that the template gives."""
    if request.properties.get("Tags"):
        request.client("ec2").create_tags(Resources=[physical_id], Tags=request.value("Tags"))


def drop_tags(request: ResourceRequest, physical_id: str, previous: ResourceRequest) -> None:
    """Take back tags that the template no longer has."""
    kept = {tag["Key"] for tag in request.properties.get("Tags", [])}
    gone = [{"Key": tag["Key"]} for tag in previous.properties.get("Tags", []) if tag["Key"] not in kept]
    if gone:
        request.client("ec2").delete_tags(Resources=[physical_id], Tags=gone)


def added_and_removed(
    request: ResourceRequest, previous: ResourceRequest, name: str
) -> tuple[list[str], list[str]]:
    """Compare two lists of ids."""
    wanted, had = request.properties.get(name, []), previous.properties.get(name, [])
    return [item for item in wanted if item not in had], [item for item in had if item not in wanted]

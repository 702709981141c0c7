"""Delete superseded images of endpoints from an environment's repositories.

ECR's lifecycle rules know nothing of locks and endpoints, and an expired image cannot be restored. So an
image is deleted here, by its digest, and only if

- a version of this environment's lock has named it, and none of the last `keep_locks` versions does;
- no current lock of any environment names it;
- no model that exists names it: live endpoints', and retained ones to which `rollback` may return;
- it was pushed more than 30 days ago.

Nothing is deleted if the history is incomplete, or if what an endpoint runs is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from tritonstack.base import naming
from tritonstack.operations.aws import Cloud, list_if_present
from tritonstack.operations.destruction.retained import RunningEndpoint, tagged_models
from tritonstack.operations.locks.retention import Named, plan_retention
from tritonstack.project.custom_images import SERVING
from tritonstack.project.workspace import Workspace
from tritonstack.records.locks import Lock

_AGE = timedelta(days=30)
_AT_ONCE = 100
"""How many images ECR deletes per call."""


def delete_superseded_images(
    cloud: Cloud, workspace: Workspace, live: Sequence[RunningEndpoint], *, now: datetime
) -> list[Named]:
    """Delete images that no recent lock and no model names; return their folders and digests."""
    # running=(): a running image has no folder here; its digest is subtracted below.
    plan = plan_retention(workspace, live, running=(), names=named_images)
    if not plan.superseded:
        return []
    base = workspace.spec.base
    retained, _ = tagged_models(cloud, base)
    used = {image for endpoint in live for image in endpoint.images} | retained
    kept = {digest for _, digest in plan.kept} | {image.rpartition("@")[2] for image in used}
    digests = {digest for _, digest in plan.superseded} - kept
    # All folders' images are in one repository: a folder is a prefix of tags.
    deleted = _delete(cloud, naming.image_repository_name(base, SERVING), digests, before=now - _AGE)
    return sorted(named for named in plan.superseded if named[1] in deleted)


def named_images(lock: Lock) -> set[Named]:
    """Return the images that a lock names: folders and digests."""
    return {(folder, image.digest) for folder, kinds in lock.images.items() for image in kinds.values()}


def _delete(cloud: Cloud, repository: str, digests: Collection[str], *, before: datetime) -> list[str]:
    ecr = cloud.client("ecr")
    images = list_if_present(ecr, "describe_images", "imageDetails", repositoryName=repository)
    old = [image["imageDigest"] for image in images if image["imagePushedAt"] < before]
    ids = [{"imageDigest": digest} for digest in digests if digest in old]
    answers = [
        ecr.batch_delete_image(repositoryName=repository, imageIds=ids[start : start + _AT_ONCE])
        for start in range(0, len(ids), _AT_ONCE)
    ]
    return sorted({image["imageDigest"] for answer in answers for image in answer["imageIds"]})

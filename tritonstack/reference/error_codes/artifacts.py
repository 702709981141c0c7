"""TS4xx: artifacts, locks, manifests, and promotion."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

ARTIFACTS: Mapping[str, Kind] = {
    "TS401": Kind(
        "Artifact is not built",
        "The lock has no artifact or image for an endpoint. Run `tritonstack build`, and commit the lock.",
    ),
    "TS402": Kind(
        "Artifact is out of date",
        "The locked artifact or image was built from other files than those of this commit, or for "
        "another GPU or TensorRT version than the endpoint's. Run `tritonstack build`, and commit the "
        "lock.",
    ),
    "TS403": Kind(
        "Lock entry is wrong",
        "A lock states other facts about an artifact than its manifest, another lock, or AWS, or claims "
        "a promotion that did not happen, or has an entry that nothing uses. Or `--online` could reach "
        "no account. Restore the lock from git, build or promote again, or remove the entry.",
    ),
    "TS408": Kind(
        "Lock changed meanwhile",
        "Another command changed the lock after this one had read it. Nothing was written. Review the "
        "lock, and rerun the command.",
    ),
    "TS409": Kind(
        "Artifact or image is missing",
        "The lock names an artifact or image that is not in the bucket, in the registry, or on this "
        "machine, or the artifact has no usable test examples. Publish it with `tritonstack build`, or "
        "promote it again.",
    ),
    "TS410": Kind(
        "Artifact is damaged",
        "An artifact, its archive, or a JSON record differs from its checksum, cannot be read, or was "
        "written by an incompatible version of tritonstack. Nothing uses it. Delete it, and build or "
        "publish it again.",
    ),
    "TS413": Kind(
        "Artifact cannot be published or copied",
        "The bucket already holds other objects under the artifact's name, several publishers write at "
        "once, or a copy between accounts failed or arrived with other contents. Rerun the command, "
        "which resumes; remove an incomplete artifact first.",
    ),
    "TS417": Kind(
        "Promotion gate failed",
        "A gate of the target environment does not allow the promotion yet. The message lists each "
        "failed gate and how to pass it. Nothing was changed.",
    ),
    "TS418": Kind(
        "Promotion not possible",
        "The artifacts cannot be promoted between these environments: the environment has another "
        "source or none, or the artifacts do not fit. Nothing was changed.",
    ),
    "TS421": Kind(
        "Rollback failed",
        "There is nothing to roll back to: the name is unknown or ambiguous, the endpoint already "
        "serves it, or its lock or artifact is gone; choose another commit or digest with `--to`. Or "
        "`verify` found that the endpoint does not run what the lock requests; fix the listed errors, "
        "and rerun.",
    ),
}

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
        "The locked artifact or image was built from other files than those of this commit. Run "
        "`tritonstack build`, and commit the lock.",
    ),
    "TS403": Kind(
        "Lock contradicts a manifest",
        "The lock states other facts about an artifact than its manifest or another lock. One of them was "
        "not written by tritonstack. Restore the lock from git, or build again.",
    ),
    "TS404": Kind(
        "Lock entry is not used",
        "A lock or one of its entries belongs to no environment or endpoint of the project. The entry has "
        "no effect and can be removed.",
    ),
    "TS406": Kind(
        "Promotion source is unknown",
        "A lock entry claims a promotion from an environment that does not exist, or whose lock never "
        "named that artifact. Promote again.",
    ),
    "TS407": Kind(
        "Engine does not match the endpoint",
        "The locked TensorRT engine was built for another TensorRT version, or for a GPU that the "
        "endpoint does not have. Run `tritonstack build`.",
    ),
    "TS408": Kind(
        "Lock changed meanwhile",
        "Another command changed the lock after this one had read it. Nothing was written. Review the "
        "lock, and rerun the command.",
    ),
    "TS409": Kind(
        "Artifact is missing",
        "The lock names an artifact that is not in the bucket or on this machine. Publish it with "
        "`tritonstack build`, or promote it again.",
    ),
    "TS410": Kind(
        "Checksum mismatch",
        "An artifact differs from its manifest or from the lock, so it is damaged or was replaced. "
        "Nothing uses it. Delete it, and build or publish it again.",
    ),
    "TS411": Kind(
        "Image is missing",
        "The registry does not have the locked image, or its tag now points to another image. Build the "
        "image again.",
    ),
    "TS412": Kind(
        "Lock could not be confirmed in AWS",
        "`tritonstack validate --online` found differences between a lock and its account, or could reach "
        "no account. Log in, and see the listed problems.",
    ),
    "TS413": Kind(
        "Artifact cannot be published",
        "The bucket already holds other objects under the artifact's name, or several publishers write at "
        "once. Remove the incomplete artifact, or wait for the other publisher, then publish again.",
    ),
    "TS414": Kind(
        "Invalid archive",
        "An artifact's archive cannot be read or written: it is damaged, too large, or has a name that is "
        "not allowed in a Triton repository.",
    ),
    "TS415": Kind(
        "No examples to test with",
        "The artifact has no usable test examples, so its answers cannot be checked. Rebuild the model "
        "with `test_inputs`.",
    ),
    "TS416": Kind(
        "Record of another version",
        "A JSON record, such as a manifest, is damaged or was written by an incompatible version of "
        "tritonstack. Build the artifact again.",
    ),
    "TS417": Kind(
        "Promotion gate failed",
        "A gate of the target environment does not allow the promotion yet. The message lists each failed "
        "gate and how to pass it. Nothing was changed.",
    ),
    "TS418": Kind(
        "Promotion not possible",
        "The artifacts cannot be promoted between these environments: the environment has another source "
        "or none, or the artifacts do not fit. Nothing was changed.",
    ),
    "TS420": Kind(
        "Copy failed",
        "An artifact, image, or layer could not be copied between accounts, or arrived with other "
        "contents. Rerun the command; it resumes.",
    ),
    "TS421": Kind(
        "No rollback target",
        "There is nothing to roll back to: the name is unknown or ambiguous, the endpoint already serves "
        "it, or its lock or artifact is gone. Choose another commit or digest with `--to`.",
    ),
    "TS422": Kind(
        "Rollback did not pass verification",
        "The endpoint was rolled back, but `verify` found that it does not run what the lock requests. "
        "Fix the listed errors, and rerun.",
    ),
}

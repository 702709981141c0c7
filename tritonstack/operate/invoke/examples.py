"""Read an artifact's examples from the environment's artifact bucket."""

from __future__ import annotations

import hashlib

from tritonstack.base.error_kinds import ArtifactNotFoundError, DamagedArtifactError
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.base.naming import artifact_prefix
from tritonstack.files.records.examples import EXAMPLES_NAME, Examples, parse_examples
from tritonstack.files.records.manifests import MANIFEST_NAME
from tritonstack.operate.shared.artifacts import published_manifest, read_object
from tritonstack.operate.shared.aws import Cloud

_REBUILD = "run `tritonstack build` again; it adds examples and keeps the artifact"


class NoExamplesError(TritonstackError):
    """The artifact has no examples."""

    code = ArtifactNotFoundError.code


def load_examples(cloud: Cloud, *, bucket: str, model: str, digest: str) -> Examples:
    """Return an artifact's requests and expected answers.

    Raise NoExamplesError if there are none, DamagedArtifactError if they do not match the manifest.
    """
    s3, prefix = cloud.client("s3"), artifact_prefix(model, digest)
    manifest = published_manifest(s3, bucket=bucket, model=model, digest=digest)
    if manifest is None:
        raise NoExamplesError(
            f"artifact {short_digest(digest)} of {model!r} not found in s3://{bucket}",
            remedy="deploy again to publish it",
        )
    if manifest.examples_sha256 is None:
        raise NoExamplesError(
            f"artifact {short_digest(digest)} of {model!r} was built by an earlier version, without examples",
            remedy=_REBUILD,
        )
    key = f"{prefix}/{EXAMPLES_NAME}"
    body = read_object(s3, bucket, key)
    if body is None or hashlib.sha256(body).hexdigest() != manifest.examples_sha256:
        failure = "is missing" if body is None else "does not match its manifest"
        raise DamagedArtifactError(
            f"s3://{bucket}/{key} {failure}",
            remedy=f"delete {MANIFEST_NAME} and {EXAMPLES_NAME} below s3://{bucket}/{prefix}/ and republish "
            "the artifact with `tritonstack build`",
        )
    examples = parse_examples(body, origin=f"s3://{bucket}/{key}")
    if examples.none_because:
        raise NoExamplesError(
            f"artifact {short_digest(digest)} of {model!r} has no examples: {examples.none_because}",
            remedy="add smaller `test_inputs` with numeric or text answers to model.yaml, and rebuild "
            "the model",
        )
    return examples


def has_examples(cloud: Cloud, *, bucket: str, model: str, digest: str) -> bool:
    """Return whether an artifact in a bucket names examples; those of earlier versions do not."""
    try:
        manifest = published_manifest(cloud.client("s3"), bucket=bucket, model=model, digest=digest)
    except TritonstackError:
        return False  # not a manifest of this version
    return manifest is not None and manifest.examples_sha256 is not None

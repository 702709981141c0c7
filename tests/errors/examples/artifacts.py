"""Examples of TS4xx: artifacts, locks, and promotion."""

from __future__ import annotations

from typing import Any

from tests.errors.examples.base import DEV, MODEL, Setting, example
from tests.errors.examples.stand_ins import CLOUD
from tests.manifests import manifest
from tests.moto_aws import simulated_aws
from tests.projects import ENVIRONMENT
from tritonstack.base.errors import InvalidFilesError
from tritonstack.project.checks.compatibility import unbuilt
from tritonstack.project.files.model_hashes import model_hash
from tritonstack.project.loading import load_models, load_workspace
from tritonstack.records.lock_writing import add_to_lock
from tritonstack.records.manifests import Manifest

BUCKET = "tritonstack-dev-artifacts"
LOCK = "environments/dev.lock.yaml"


def _manifest(shop: Setting, **changes: Any) -> Manifest:
    spec_hash = model_hash("minilm", load_models(shop.project, "minilm"))
    return manifest("minilm", **{"spec_hash": spec_hash, "source": "file://weights", **changes})


def _lock(shop: Setting, **changes: Any) -> None:
    """Write a lock with one artifact."""
    add_to_lock(shop.root / LOCK, [_manifest(shop, **changes)])


def _bucket(name: str = BUCKET) -> Any:
    """Create a bucket, and return a client."""
    s3 = CLOUD.client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return s3


def _use_moto(shop: Setting) -> None:
    """Let commands use moto's account."""
    shop.edit(DEV, "1" * 12, "123456789012")
    for name, value in CLOUD.variables.items():
        shop.patch.setenv(name, value)
    shop.open.enter_context(simulated_aws())


def _deploy(shop: Setting) -> None:
    """What `tritonstack deploy` checks first."""
    if violations := unbuilt(load_workspace(shop.project, "dev")):
        raise InvalidFilesError(violations)


def _check_locks(shop: Setting) -> None:
    from tritonstack.operations.locks.checks import check_offline
    from tritonstack.project.loading import ProjectFiles

    found = check_offline(ProjectFiles(shop.project), ["dev"])
    raise InvalidFilesError([*found.violations, *found.notes])


@example("TS401")
def not_built(shop: Setting) -> None:
    """`tritonstack deploy` before `tritonstack build`."""
    _deploy(shop)


@example("TS402")
def out_of_date(shop: Setting) -> None:
    """`model.yaml` has changed since the build."""
    _lock(shop)
    shop.edit(MODEL, "A man is eating food.", "A man eats.")
    _deploy(shop)


@example("TS403")
def contradicting_manifest(shop: Setting) -> None:
    """A manifest on this machine states another size than the lock."""
    from tritonstack.base.naming import artifact_prefix
    from tritonstack.records.manifests import MANIFEST_NAME

    _lock(shop)
    other = _manifest(shop, archive_bytes=2)
    shop.write(
        str(shop.project.artifacts_dir / artifact_prefix("minilm", other.digest) / MANIFEST_NAME),
        other.to_json(),
    )
    _check_locks(shop)


@example("TS408")
def lock_changed(shop: Setting) -> None:
    """Another command changes the lock while a rollback runs."""
    from tritonstack.records.lock_writing import Replacement, replace_entries
    from tritonstack.records.locks import entry_of

    _lock(shop)
    seen, then = entry_of(_manifest(shop, digest="12" * 32)), entry_of(_manifest(shop, digest="34" * 32))
    replace_entries(shop.root / LOCK, artifacts=[Replacement("minilm", "cpu", then, seen)])


@example("TS409")
def no_artifact(shop: Setting) -> None:
    """`tritonstack validate --online`, after somebody deleted an artifact from the bucket."""
    _lock(shop)
    _use_moto(shop)
    _bucket("tritonstack-dev-artifacts-123456789012-eu-west-1")
    shop.command("validate", "dev", "--online")


@example("TS410")
def damaged(shop: Setting) -> None:
    """An archive was damaged after the build."""
    from model_build.store.artifacts import verify_artifact

    folder = f"artifacts/{'ab' * 32}"
    shop.write(f"{folder}/manifest.json", _manifest(shop).to_json())
    shop.write(f"{folder}/model.tar.gz", "x")
    verify_artifact(shop.root / folder)


@example("TS418")
def other_source(shop: Setting) -> None:
    """`tritonstack promote` into an environment without `promotion`."""
    shop.write("environments/prod.yaml", ENVIRONMENT.replace("name: dev", "name: prod"))
    _lock(shop)
    shop.command("promote", "dev", "prod")


@example("TS421")
def no_rollback(shop: Setting) -> None:
    """`tritonstack rollback` of an endpoint that never served anything else."""
    _lock(shop)
    shop.command("rollback", "dev", "search")


@example("TS413")
def half_published(shop: Setting) -> None:
    """The bucket has the manifest of an artifact, but not its archive."""
    import hashlib

    from model_build.store.publishing import publish
    from tritonstack.base.naming import artifact_prefix

    digest = hashlib.sha256(b"x").hexdigest()
    text = _manifest(shop, digest=digest).to_json()
    shop.write(f"{digest}/manifest.json", text)
    shop.write(f"{digest}/model.tar.gz", "x")
    with simulated_aws():
        s3 = _bucket()
        s3.put_object(Bucket=BUCKET, Key=f"{artifact_prefix('minilm', digest)}/manifest.json", Body=text)
        publish(artifact_dir=shop.root / digest, bucket=BUCKET, s3_client=s3)

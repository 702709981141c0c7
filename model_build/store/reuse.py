"""Find an existing artifact in the local store before anything is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from model_build.errors import CorruptArtifactError
from model_build.progress import BuildSteps
from model_build.store.artifacts import ArtifactStore, BuildKey, read_manifest, verify_artifact
from tritonstack.base.errors import TritonstackError
from tritonstack.base.files import short_digest
from tritonstack.facts.targets import Target, parse_target
from tritonstack.files.records.manifests import Manifest


def fits(target: Target, requested: Sequence[Target]) -> bool:
    """Return whether an artifact for `target` runs on one of the requested targets; no Python bound means
    any."""
    return any(target in (item, Target(item.hardware)) for item in requested)


def has_artifact_of(store: ArtifactStore, spec_hash: str) -> bool:
    """Return whether the store has any build of this specification, complete or not."""
    return any(manifest.spec_hash == spec_hash for _, manifest in _stored(store))


def find_artifact(
    store: ArtifactStore,
    key: BuildKey,
    requested: Sequence[Target],
    steps: BuildSteps,
    *,
    choices: Mapping[str, str],
) -> tuple[Path, Manifest] | None:
    """Return the artifact that `key` would build again; report and delete a corrupt one.

    `choices` are those recorded for `precision: auto`: other choices make another artifact.
    """
    for folder, manifest in _stored(store):
        matches = fits(parse_target(manifest.target), requested) and key.made(manifest)
        # Artifacts of an earlier version lack examples; rebuild them, with identical archive bytes.
        matches = matches and manifest.examples_sha256 is not None
        matches = matches and manifest.choices.items() <= {**manifest.choices, **choices}.items()
        if matches and _is_sound(store, folder, steps):
            return folder, manifest
    return None


def _stored(store: ArtifactStore) -> Iterator[tuple[Path, Manifest]]:
    for folder in store.folders():
        try:
            yield folder, read_manifest(folder)
        except TritonstackError:
            continue  # other version or wrong folder: not the artifact in question


def _is_sound(store: ArtifactStore, folder: Path, steps: BuildSteps) -> bool:
    try:
        steps.run("existing", lambda: verify_artifact(folder), lambda manifest: short_digest(manifest.digest))
    except CorruptArtifactError:
        store.discard(folder)
        return False
    return True

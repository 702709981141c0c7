"""hf://org/name@revision: a model on the Hugging Face Hub, or in its local cache.

The usual variables of huggingface_hub apply (HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE). Every file,
cached ones included, is compared with the Hub's hash.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    DryRunError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import disable_progress_bars

from model_build.errors import AlteredSourceError, SourceError
from model_build.sources.base import FoundFolder, add_file, check_listing, check_weights, no_weights
from tritonstack.files.sources.source_selection import PICKLES, TRANSFORMERS, FileSelection

SHA256_LENGTH, SHA1_LENGTH = 64, 40
_ERRORS: Sequence[tuple[type[Exception], str, str]] = (
    (
        GatedRepoError,
        "the model is gated",
        "accept its terms on the Hub and set HF_TOKEN to a token of that account",
    ),
    (
        RevisionNotFoundError,
        "{repository} has no revision {revision!r}",
        "use a commit, tag, or branch of the model on the Hub",
    ),
    (
        RepositoryNotFoundError,
        "{repository} does not exist on the Hub, or is private",
        "check the name; for a private model, set HF_TOKEN",
    ),
    (
        LocalEntryNotFoundError,
        "the Hub is unreachable, and the local cache lacks that revision",
        "check the network, HF_ENDPOINT, and HF_HUB_OFFLINE",
    ),
    (HFValidationError, "{error}", "use org/name as on the model's Hub page"),
    (Exception, "{error}", "check the network and HF_ENDPOINT"),
)
"""What each error of the Hub means, the special ones first."""


def fetch_from_hub(
    text: str, *, selection: FileSelection = TRANSFORMERS, endpoint: str | None = None
) -> FoundFolder:
    """Fetch a snapshot of the wanted files; the revision is the resolved commit."""
    repository, _, revision = text.partition("@")
    disable_progress_bars()  # the build reports its own progress
    try:
        listed = _names(repository, revision, selection, endpoint)
        names = [name for name in listed if selection.holds(name)]
        patterns = [glob.escape(name) for name in names] or list(selection.patterns)
        snapshot = snapshot_download(
            repository, revision=revision, allow_patterns=patterns, endpoint=endpoint
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        message, remedy = next(text for kind, *text in _ERRORS if isinstance(error, kind))
        message = message.format(repository=repository, revision=revision, error=error)
        raise SourceError(f"hf://{text}: {message}", remedy=remedy) from error
    folder = Path(snapshot)
    check_weights(selection.weights_among(folder))  # faster than hashing incomplete files
    for name in selection.among(folder):
        _check_file(folder / name, source=f"hf://{text}")
    others = tuple(sorted({*listed} - {*names})) if listed else None
    return FoundFolder(folder, folder.name, others)


def _names(repository: str, revision: str, selection: FileSelection, endpoint: str | None) -> Sequence[str]:
    """Return the Hub's list of the files that could matter; empty if only the cache is available."""
    source = f"hf://{repository}@{revision}"
    try:
        listed: Any = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=[*selection.patterns, *PICKLES],
            endpoint=endpoint,
            dry_run=True,
        )
    except DryRunError:
        return ()  # without a dry run, it answers from the cache or reports the cause
    files = {info.filename: info for info in listed}
    names = [name for name in files if selection.holds(name)]
    if not selection.has_weights(names):
        raise no_weights(list(files), source, selection)
    sizes = {name: (files[name].file_size or 0) if files[name].will_download else 0 for name in names}
    check_listing(sizes, source=source, into=Path(constants.HF_HUB_CACHE))
    return list(files)


def _check_file(file: Path, *, source: str) -> None:
    """Check a file's hash: the cache names each file by the SHA-256 or git hash of the Hub."""
    stored = file.resolve()
    if len(stored.name) == SHA256_LENGTH:
        digest = hashlib.sha256()
    elif len(stored.name) == SHA1_LENGTH:
        digest = hashlib.sha1(f"blob {stored.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        return  # a cache without links has no hashes
    add_file(digest, stored)
    if digest.hexdigest() != stored.name:
        raise AlteredSourceError(
            f"{source}: checksum mismatch for {file.name}",
            remedy=f"remove {stored} and build again",
        )

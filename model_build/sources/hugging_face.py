"""hf://org/name@revision: a model on the Hugging Face Hub, or in the Hub's cache on this machine.

The usual variables of huggingface_hub hold (HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE). Every file is
compared with the hash under which the Hub lists it, those in the cache too.
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

from model_build.errors import SourceError
from model_build.sources.base import FoundFolder, add_file, check_listing, no_weights
from model_build.sources.safe_weights import check_weights
from model_build.sources.wanted import PICKLES, TRANSFORMERS, WantedFiles

SHA256_LENGTH, SHA1_LENGTH = 64, 40


def fetch_from_hub(
    text: str, *, wanted: WantedFiles = TRANSFORMERS, endpoint: str | None = None
) -> FoundFolder:
    """A snapshot of the wanted files; its revision is the commit that the given revision stands for."""
    repository, _, revision = text.partition("@")
    disable_progress_bars()  # the build's own progress is what is shown
    try:
        patterns = _names(repository, revision, wanted, endpoint) or wanted.patterns
        found = snapshot_download(
            repository, revision=revision, allow_patterns=list(patterns), endpoint=endpoint
        )
    except GatedRepoError as error:
        raise SourceError(
            f"hf://{text}: the model is gated",
            remedy="accept its terms on the Hub and set HF_TOKEN to a token of that account",
        ) from error
    except RevisionNotFoundError as error:
        raise SourceError(
            f"hf://{text}: {repository} has no revision {revision!r}",
            remedy="use a commit, a tag or a branch that its page on the Hub lists",
        ) from error
    except RepositoryNotFoundError as error:
        raise SourceError(
            f"hf://{text}: there is no model {repository} on the Hub, or it is private",
            remedy="check the name; for a private model set HF_TOKEN",
        ) from error
    except LocalEntryNotFoundError as error:
        raise SourceError(
            f"hf://{text}: the Hub cannot be reached, and this machine's cache does not hold that revision",
            remedy="check the network, HF_ENDPOINT and HF_HUB_OFFLINE",
        ) from error
    except HFValidationError as error:
        raise SourceError(
            f"hf://{text}: {error}", remedy="write org/name as the model's page on the Hub does"
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise SourceError(f"hf://{text}: {error}", remedy="check the network and HF_ENDPOINT") from error
    folder = Path(found)
    check_weights(wanted.weights_among(folder))  # quicker than hashing what is incomplete
    for name in wanted.among(folder):
        _check_file(folder / name, source=f"hf://{text}")
    return FoundFolder(folder, folder.name)


def _names(repository: str, revision: str, wanted: WantedFiles, endpoint: str | None) -> Sequence[str] | None:
    """The wanted files that the Hub lists, or None where only its cache can be asked."""
    source = f"hf://{repository}@{revision}"
    try:
        listed: Any = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=[*wanted.patterns, *PICKLES],
            endpoint=endpoint,
            dry_run=True,
        )
    except DryRunError:
        return None  # asked again without a dry run, it answers from the cache or says why it cannot
    files = {info.filename: info for info in listed}
    names = [name for name in files if wanted.holds(name)]
    if not wanted.has_weights(names):
        raise no_weights(list(files), source, wanted)
    sizes = {name: (files[name].file_size or 0) if files[name].will_download else 0 for name in names}
    check_listing(sizes, source=source, into=Path(constants.HF_HUB_CACHE))
    return [glob.escape(name) for name in names]


def _check_file(file: Path, *, source: str) -> None:
    """Compare a file with its hash: the cache names each by the SHA-256 or git hash that the Hub lists."""
    stored = file.resolve()
    if len(stored.name) == SHA256_LENGTH:
        digest = hashlib.sha256()
    elif len(stored.name) == SHA1_LENGTH:
        digest = hashlib.sha1(f"blob {stored.stat().st_size}\0".encode(), usedforsecurity=False)
    else:
        return  # a cache without links keeps no hashes
    add_file(digest, stored)
    if digest.hexdigest() != stored.name:
        raise SourceError(
            f"{source}: {file.name} is not the file that the Hub lists: its hash is another",
            remedy=f"remove {stored} and build again, which fetches it anew",
        )

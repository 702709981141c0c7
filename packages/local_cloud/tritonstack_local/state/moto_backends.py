"""Persist moto's backends by service, account, and region.

moto looks up every backend in dictionaries by account and region. This module watches those lookups to find
the backends a request has used, of any service.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import moto.s3.models as s3_models
from moto.backends import get_backend
from moto.core.base_backend import AccountSpecificBackend, BackendDict, BaseBackend
from moto.iam.models import AWSManagedPolicy
from moto.s3.models import FakeKey, s3_backends

from tritonstack_local.state.bodies import Body, new_body
from tritonstack_local.state.pickling import Reduce, Reduced, dumps

_get_backend = AccountSpecificBackend.__getitem__
# moto's original methods, used for objects outside of any cloud.
_dispose, _key_state, _fill_key = FakeKey.dispose, FakeKey.__getstate__, FakeKey.__setstate__
_touched = threading.local()

State = dict[str, Any]


class MotoBackends:
    """All backends that requests of this cloud have changed, under `service/account/region`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def dump(self, key: str) -> bytes:
        """Pickle a backend."""
        self._known.add(key)
        service, account, region = key.split("/")
        state = dict(vars(_backend(service, account, region)))
        return dumps(_PORTABLE.get(service, dict)(state), reducers=_REDUCERS)

    def load(self, key: str, value: State) -> None:
        """Fill a backend."""
        self._known.add(key)
        service, account, region = key.split("/")
        backend = _backend(service, account, region)
        _FILLED.get(service, _fill)(backend, value)

    def drop_lost_objects(self) -> dict[str, list[str]]:
        """Remove S3 objects without bodies; return them by backend key."""
        found = {}
        for key in self._known:
            service, account, region = key.split("/")
            if service == "s3" and (lost := list(_drop_lost(_backend(service, account, region)))):
                found[key] = lost
        return found

    def is_known(self, key: str) -> bool:
        """Return whether a backend was saved before."""
        return key in self._known


@contextmanager
def touched_backends() -> Iterator[dict[str, None]]:
    """Record the backends that this thread looks up."""
    keys: dict[str, None] = {}
    _touched.keys = keys
    try:
        yield keys
    finally:
        _touched.keys = None


@contextmanager
def untouched() -> Iterator[None]:
    """Record no lookups within the context."""
    keys = getattr(_touched, "keys", None)
    _touched.keys = None
    try:
        yield
    finally:
        _touched.keys = keys


def watched_getitem(backends: AccountSpecificBackend[Any], region: str) -> Any:
    """Record the lookup. Replaces moto's own method, wrapped by the check of accounts."""
    keys = getattr(_touched, "keys", None)
    if keys is not None:
        keys[f"{backends.service_name}/{backends.account_id}/{'aws' if region == 'global' else region}"] = (
            None
        )
    return _get_backend(backends, region)


def disposed(key: Any, garbage: bool = False) -> None:
    """Release an object's body; garbage collection releases it anyway."""
    if not isinstance(key._value_buffer, Body):
        _dispose(key, garbage)
        return
    key.disposed = True
    if not garbage:
        key._value_buffer = key._value_buffer.emptied()
        if key.multipart:
            key.multipart.dispose()


def key_state(key: Any) -> State:
    """Return an object's fields; its body is a reference to a file."""
    if not isinstance(key._value_buffer, Body):
        return _key_state(key)
    return {name: value for name, value in vars(key).items() if name != "lock"}


def filled_key(key: Any, state: State) -> None:
    """Create an object again."""
    if not isinstance(state.get("_value_buffer"), Body):
        _fill_key(key, state)
    else:
        vars(key).update(state, lock=threading.Lock())


def _backend(service: str, account: str, region: str) -> Any:
    return _get_backend(get_backend(service)[account], region)  # type: ignore[call-overload]


def _reference(backend: BaseBackend) -> Reduced:
    known: list[BackendDict[Any]] = BackendDict._instances  # type: ignore[misc]
    service = next(services.service_name for services in known if services.backend is type(backend))
    return _backend, (service, backend.account_id, backend.region_name)


def _managed_policy(policy: Any) -> Reduced:
    return _known_policy, (policy.backend, policy.arn, policy.attachment_count)


def _known_policy(backend: Any, arn: str, attachment_count: int) -> Any:
    policy = backend.managed_policies[arn]
    policy.attachment_count = attachment_count
    return policy


def _own_policies(state: State) -> State:
    """Leave out the 1,500 AWS managed policies: those in use are referenced by ARN."""
    own = {arn: it for arn, it in state["managed_policies"].items() if not isinstance(it, AWSManagedPolicy)}
    return {**state, "managed_policies": own, "aws_managed_policies": None}


def _fill_iam(backend: Any, state: State) -> None:
    managed = {policy.arn: policy for policy in backend.aws_managed_policies}
    state["managed_policies"] = managed | state["managed_policies"]
    _fill(backend, {**state, "aws_managed_policies": backend.aws_managed_policies})


def _without_data_points(state: State) -> State:
    return {**state, "metric_data": [], "paged_metric_data": {}}


def _fill_s3(backend: Any, state: State) -> None:
    _fill(backend, state)
    for name in backend.buckets:
        s3_backends.bucket_accounts[name] = (backend.partition, backend.account_id)


def _drop_lost(backend: Any) -> Iterator[str]:
    for name, bucket in backend.buckets.items():
        for key, versions in list(bucket.keys.lists()):
            whole = [version for version in versions if not _is_lost(version)]
            if len(whole) == len(versions):
                continue
            yield f"s3://{name}/{key}"
            if whole:
                bucket.keys.setlist(key, whole)
            else:
                bucket.keys.pop(key)
        for upload in list(bucket.multiparts.values()):
            if any(map(_is_lost, upload.parts.values())):
                yield f"the upload {upload.id} of s3://{name}/{upload.key_name}"
                del bucket.multiparts[upload.id]


def _is_lost(item: Any) -> bool:
    body = getattr(item, "_value_buffer", None)  # a delete marker has none
    return isinstance(body, Body) and body.is_lost


def _fill(backend: Any, state: State) -> None:
    vars(backend).update(state)


_REDUCERS: Mapping[type, Reduce] = {BaseBackend: _reference, AWSManagedPolicy: _managed_policy}
_PORTABLE: Mapping[str, Callable[[State], State]] = {
    "iam": _own_policies,
    "cloudwatch": _without_data_points,
}
_FILLED: Mapping[str, Callable[[Any, State], None]] = {"iam": _fill_iam, "s3": _fill_s3}

CORRECTIONS: tuple[tuple[Any, str, Any], ...] = (
    # moto holds bodies in buffers, and copies them with every listing of versions.
    (s3_models, "tempfile", types.SimpleNamespace(SpooledTemporaryFile=new_body)),
    (FakeKey, "dispose", disposed),
    (FakeKey, "__getstate__", key_state),
    (FakeKey, "__setstate__", filled_key),
)

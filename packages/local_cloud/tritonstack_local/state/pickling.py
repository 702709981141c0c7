"""Pickle records, and what pickle does not support: locks, keys, and lambdas."""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import threading
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, get_args

import moto.s3.models as s3_models
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from moto.backends import get_backend
from moto.core.base_backend import AccountSpecificBackend, BackendDict, BaseBackend
from moto.iam.models import AWSManagedPolicy
from moto.s3.models import FakeKey, s3_backends

from tritonstack_local.state.bodies import Body, new_body
from tritonstack_local.state.writer import OnChange, not_persisted

Reduced = tuple[Any, ...]
Reduce = Callable[[Any], Reduced | Any]
"""The result of `__reduce__` for an object, or NotImplemented for pickle's default."""


def dumps(value: Any, *, reducers: Mapping[type, Reduce] = {}) -> bytes:
    """Pickle a value; `reducers` handle additional types."""
    buffer = io.BytesIO()
    _Pickler(buffer, {**_USUAL_REDUCERS, **reducers}).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, reducers: Mapping[type, Reduce]) -> None:
        super().__init__(file, protocol=5)
        self._reducers = reducers
        self._chosen: dict[type, Reduce | None] = {}

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind not in self._chosen:
            self._chosen[kind] = self._choose(kind)
        reduce = self._chosen[kind]
        return NotImplemented if reduce is None else reduce(value)

    def _choose(self, kind: type) -> Reduce | None:
        return next((reduce for base, reduce in self._reducers.items() if issubclass(kind, base)), None)


def _no_thread() -> None:
    """Replace a thread: it does not run after a restart."""


def _function(value: types.FunctionType) -> Any:
    """Reduce a function that cannot be imported: a lambda or a nested function."""
    if "<" not in value.__qualname__:
        return NotImplemented
    if value.__closure__:
        raise pickle.PicklingError(f"{value.__qualname__} remembers variables of the function around it")
    return _made_function, (marshal.dumps(value.__code__), value.__module__)


def _made_function(code: bytes, module: str) -> types.FunctionType:
    return types.FunctionType(marshal.loads(code), vars(importlib.import_module(module)))  # noqa: S302 - see snapshot.py


def _private_key(value: Any) -> Reduced:
    pem = value.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return _loaded_private_key, (pem,)


def _loaded_private_key(pem: bytes) -> Any:
    return serialization.load_pem_private_key(pem, None)


def _public_key(value: Any) -> Reduced:
    pem = value.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _loaded_public_key, (pem,)


def _loaded_public_key(pem: bytes) -> Any:
    return serialization.load_pem_public_key(pem)


def _dictionary(value: dict[Any, Any]) -> Any:
    """Reduce moto's dictionary subclasses to their content."""
    kind = type(value)
    if not kind.__module__.startswith("moto."):
        return NotImplemented
    held = (list(dict.items(value)), getattr(value, "default_factory", None), vars(value))
    return kind.__new__, (kind,), held, None, None, _fill_dictionary


def _fill_dictionary(made: Any, held: tuple[list[tuple[Any, Any]], Any, dict[str, Any]]) -> None:
    items, factory, attributes = held
    dict.update(made, items)
    if isinstance(made, defaultdict):
        made.default_factory = factory
    vars(made).update(attributes)


_USUAL_REDUCERS: Mapping[type, Reduce] = {
    type(threading.Lock()): lambda _lock: (threading.Lock, ()),
    type(threading.RLock()): lambda _lock: (threading.RLock, ()),
    threading.Condition: lambda _condition: (threading.Condition, ()),
    threading.Event: lambda _event: (threading.Event, ()),
    threading.Thread: lambda _thread: (_no_thread, ()),
    types.FunctionType: _function,
    dict: _dictionary,
    weakref.WeakValueDictionary: lambda held: (weakref.WeakValueDictionary, (dict(held),)),
    **dict.fromkeys(get_args(PrivateKeyTypes), _private_key),
    **dict.fromkeys(get_args(PublicKeyTypes), _public_key),
}


_get_backend = AccountSpecificBackend.__getitem__
# moto's original methods, used for objects outside of any cloud.
_key_state, _fill_key = FakeKey.__getstate__, FakeKey.__setstate__

State = dict[str, Any]


class MotoBackends:
    """All backends of this process, under `service/account/region`."""

    def __init__(self) -> None:
        self.on_change: OnChange = not_persisted

    def piece_keys(self) -> list[str]:
        """List the backends that requests have created."""
        return [
            f"{services.service_name}/{account}/{region}"
            for services in _services()
            for account, backends in list(services.items())
            for region in list(backends)
        ]

    def dump(self, key: str) -> bytes:
        """Pickle a backend."""
        service, account, region = key.split("/")
        state = dict(vars(_backend(service, account, region)))
        return dumps(_PORTABLE.get(service, dict)(state), reducers=_REDUCERS)

    def load(self, key: str, value: State) -> None:
        """Fill a backend."""
        service, account, region = key.split("/")
        _FILLED.get(service, _fill)(_backend(service, account, region), value)


def _services() -> list[BackendDict[Any]]:
    return BackendDict._instances  # type: ignore[misc]


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
    service = next(services.service_name for services in _services() if services.backend is type(backend))
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
    (FakeKey, "__del__", lambda _key: None),
    (FakeKey, "__getstate__", key_state),
    (FakeKey, "__setstate__", filled_key),
)

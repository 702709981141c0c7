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

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

Reduced = tuple[Any, ...]
Reduce = Callable[[Any], Reduced | Any]
"""The result of `__reduce__` for an object, or NotImplemented for pickle's default."""


def dumps(value: Any, *, reducers: Mapping[type, Reduce] = {}) -> bytes:
    """Pickle a value; `reducers` handle additional types."""
    buffer = io.BytesIO()
    _Pickler(buffer, {**_REDUCERS, **reducers}).dump(value)
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


_REDUCERS: Mapping[type, Reduce] = {
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

"""Pickle records, and what pickle does not support: locks, keys, and lambdas.

Records of this cloud are pickled with their field names, so that records of another version are detected.
"""

from __future__ import annotations

import dataclasses
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

from tritonstack_local.state.errors import OtherVersionError

_OWN = "tritonstack_local."
Reduced = tuple[Any, ...]
Reduce = Callable[[Any], Reduced | Any]
"""The result of `__reduce__` for an object, or NotImplemented for pickle's default."""


def dumps(value: Any, *, reducers: Mapping[type, Reduce] = {}) -> bytes:
    """Pickle a value; `reducers` handle additional types."""
    buffer = io.BytesIO()
    _Pickler(buffer, {**_REDUCERS, **reducers}).dump(value)
    return buffer.getvalue()


def loads(value: bytes) -> Any:
    """Unpickle. This can run code, so the bytes must come from this cloud's own state folder."""
    return _Unpickler(io.BytesIO(value)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Find a class; a missing class of this package means that another version wrote the state."""
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError) as missing:
            if module.startswith(_OWN):
                raise OtherVersionError(f"it has a {module}.{name}") from missing
            raise


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
        found = next((reduce for known, reduce in self._reducers.items() if issubclass(kind, known)), None)
        if found is None and dataclasses.is_dataclass(kind) and kind.__module__.startswith(_OWN):
            return _own_record
        return found


def _own_record(value: Any) -> Reduced:
    kind = type(value)
    return _blank, (kind, _fields_of(kind)), value.__getstate__()


def _blank(kind: type, fields: tuple[str, ...]) -> Any:
    if fields != _fields_of(kind):
        raise OtherVersionError(f"{kind.__name__} consisted of {', '.join(fields)}")
    return object.__new__(kind)


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields_of(kind: type[Any]) -> tuple[str, ...]:
    """Return a record's field names, always as the same tuple, which pickle writes once."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in dataclasses.fields(kind))
    return _FIELDS[kind]


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
    return types.FunctionType(marshal.loads(code), vars(importlib.import_module(module)))  # noqa: S302 - see `loads`


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

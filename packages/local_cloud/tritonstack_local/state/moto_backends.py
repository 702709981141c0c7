"""Persist moto's backends by service, account, and region."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

import moto.s3.models as s3_models
from moto.backends import get_backend
from moto.core.base_backend import AccountSpecificBackend, BackendDict, BaseBackend
from moto.iam.models import AWSManagedPolicy
from moto.s3.models import FakeKey, s3_backends

from tritonstack_local.state.bodies import Body, new_body
from tritonstack_local.state.pickling import Reduce, Reduced, dumps
from tritonstack_local.state.writer import OnChange, not_persisted

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

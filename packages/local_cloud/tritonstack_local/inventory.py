"""List every resource of this cloud by account and region, to prove that a teardown left nothing.

Resources that moto creates in every account (managed policies, a default VPC) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moto.core.base_backend import BackendDict
from moto.core.common_models import BaseModel

from tritonstack_local.cloudformation.records import Stack
from tritonstack_local.scope import AWS_OWN_ACCOUNT, Scope

# moto classes that are not resources of an account: built-in, sessions, or parts of other resources.
_LEFT_OUT = {
    "iam": {"AWSManagedPolicy", "AccessKey", "AccountSummary"},
    "sts": {"AssumedRole"},
    "ec2": {"Ami", "ManagedPrefixList", "NetworkAcl", "Snapshot"},
}


Item = dict[str, str | bool]
"""One resource, as JSON shows it. KMS keys pending deletion are included and marked."""


def inventory(stacks: Iterable[Stack]) -> list[Item]:
    """List every stack, and every resource that moto's services hold."""
    items = [("cloudformation", "Stack", it.identity.name, it.identity.scope, False) for it in stacks]
    backends: list[BackendDict[Any]] = BackendDict._instances  # type: ignore[misc]
    for services in list(backends):
        service = services.service_name
        for account, region, backend in list(services.iter_backends()):
            for kind, name, pending in _held(service, backend) if account != AWS_OWN_ACCOUNT else ():
                items.append((service, kind, name, Scope(account, region), pending))
    return [
        {
            "service": service,
            "type": kind,
            "id": name,
            "account": scope.account,
            "region": scope.region,
            **({"pending_deletion": True} if pending else {}),
        }
        for service, kind, name, scope, pending in sorted(set(items), key=lambda item: (item[3], *item[:3]))
    ]


def _held(service: str, backend: Any) -> Iterator[tuple[str, str, bool]]:
    left_out = _LEFT_OUT.get(service, set())
    for table in list(vars(backend).values()):
        for key, model in _models(table, ""):
            kind = type(model).__name__
            if kind not in left_out and not _built_in(model) and not _deleted(model):
                yield kind.removeprefix("Fake"), _name(model, key), _pending_deletion(model)
    if service == "kms":
        yield from (("Alias", name, False) for key in backend.keys.values() for name in _own_aliases(key))
    if service == "logs":
        yield from (("MetricFilter", item["filterName"], False) for item in backend.filters.metric_filters)


def _models(value: Any, key: str) -> Iterator[tuple[str, BaseModel]]:
    """Yield the models in nested containers with their keys."""
    if isinstance(value, BaseModel):
        yield key, value
    elif isinstance(value, Mapping):
        for inner_key, inner in list(value.items()):
            yield from _models(inner, str(inner_key))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for inner in list(value):
            yield from _models(inner, key)


def _built_in(model: Any) -> bool:
    """Return whether moto created it: a default VPC, a part of any VPC, an AWS managed key."""
    managed_key = len(getattr(model, "aliases", ())) > len(_own_aliases(model))
    defaults = (getattr(model, name, False) for name in ("is_default", "default_for_az"))
    main_route_table = getattr(model, "main_association_id", None) is not None
    usual = type(model).__name__ in {"EventBus", "ScheduleGroup"} and model.name == "default"
    return managed_key or main_route_table or usual or any(str(x).lower() == "true" for x in defaults)


def _deleted(model: Any) -> bool:
    """Return whether it is deleted; some deleted resources can still be described."""
    return getattr(model, "state", None) == "deleted"


def _own_aliases(key: Any) -> list[str]:
    return [name for name in getattr(key, "aliases", ()) if not name.startswith("alias/aws/")]


def _name(model: Any, key: str) -> str:
    candidates = (getattr(model, name, None) for name in ("name", "policy_name", "id", "arn"))
    return next((candidate for candidate in candidates if isinstance(candidate, str) and candidate), key)


def _pending_deletion(model: Any) -> bool:
    return getattr(model, "key_state", None) == "PendingDeletion"

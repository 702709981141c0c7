"""Notes about valid files: entries that passed no promotion gate, missing prices, and placeholders."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tritonstack.base.error_kinds import ChangedSourceError, InstanceTypeError, UnavailableOptionError
from tritonstack.base.errors import FileViolation, shown_path
from tritonstack.base.files import short_digest
from tritonstack.base.yaml import Document
from tritonstack.facts.drivers import chosen_ami, doubtful_ami
from tritonstack.files.checks.regions import region_warnings
from tritonstack.files.endpoint.endpoint import EndpointSpec
from tritonstack.files.endpoint.rules import copies_per_machine
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.records.locks import Lock, PlacedEntry, entries_of
from tritonstack.files.scaffold.model_files import PLACEHOLDER_IMAGE, PLACEHOLDERS, placeholder_image

_Environment = Document[EnvironmentSpec]


def environment_warnings(document: _Environment) -> list[FileViolation]:
    """Return what the region may lack, updates without room, and undocumented host images and routes."""
    warnings = region_warnings(document)
    for name, endpoint in document.record.endpoints.items():
        warnings += _no_second_copy(document, name, endpoint)
        warnings += _doubtful_hosts(document, name, endpoint)
        warnings += _no_route(document, name, endpoint)
    return warnings


def _no_second_copy(document: _Environment, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    components = endpoint.components
    if components is None:
        return
    fitting = copies_per_machine(components, endpoint.variants[0].instance)
    room = fitting * endpoint.scaling.highest
    if room <= max(1, components.min_copies):
        yield document.violation(
            InstanceTypeError,
            ("endpoints", name, "scaling", "max_instances"),
            f"an update starts a new copy before it ends an old one, but there is room for {room} only: each "
            "update waits for its time limit, and is rolled back",
            "raise max_instances by 1, or make the copies smaller",
        )


def _doubtful_hosts(document: _Environment, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    if endpoint.image is not None and endpoint.inference_ami is None:
        return  # SageMaker's default
    for variant in endpoint.variants:
        ami = endpoint.inference_ami or chosen_ami(variant.instance, document.record.release)
        reason = ami and doubtful_ami(ami, variant.instance, document.record.release)
        if reason:
            yield document.violation(
                InstanceTypeError,
                ("endpoints", name, "inference_ami" if endpoint.inference_ami else "instance_type"),
                f"not guaranteed: {reason}",
                "try it outside production, or choose a release with CUDA 13 or another instance type",
            )


def _no_route(document: _Environment, name: str, endpoint: EndpointSpec) -> Iterator[FileViolation]:
    network = document.record.network
    if network is not None and network.create is not None and not endpoint.network_isolation:
        yield document.violation(
            UnavailableOptionError,
            ("endpoints", name, "network_isolation"),
            "the created network has routes to S3, ECR, and CloudWatch Logs only: code in the container "
            "cannot call STS, Secrets Manager, or any other service",
            "set `network: {existing: …}` with endpoints of these services, or remove network_isolation",
        )


def unpromoted_note(lock: Document[Lock], spec: EnvironmentSpec) -> str | None:
    """Describe entries that were built for an environment with a promotion source; None if there are none.

    A rollback keeps what the entry was before.
    """
    if spec.promotion is None:
        return None
    names = list(
        dict.fromkeys(_described(placed) for placed in entries_of(lock) if placed.entry.promoted is None)
    )
    if not names:
        return None
    return (
        f"{shown_path(lock.file)}: {', '.join(names)} {'was' if len(names) == 1 else 'were'} built for "
        f"{spec.name}, not promoted from {spec.promotion.source}: no gate was checked"
    )


def unpriced_note(environment: Document[EnvironmentSpec]) -> str | None:
    """Describe instance types without a price in a file that has prices; None if there are none."""
    spec = environment.record
    used = {variant.instance.name for endpoint in spec.endpoints.values() for variant in endpoint.variants}
    missing = sorted(used - set(spec.prices))
    if not spec.prices or not missing:
        return None
    return f"{shown_path(environment.file)}: no price for {', '.join(missing)}: costs are not shown"


def placeholder_note(model: Document[ModelSpec]) -> str | None:
    """Describe test inputs that `tritonstack new` wrote; None if they were replaced."""
    texts = {str(value) for case in model.record.test_inputs for value in case.model_dump().values()}
    image = model.file.parent / PLACEHOLDER_IMAGE
    is_gray = image.name in texts and image.is_file() and image.read_bytes() == placeholder_image()
    if texts.isdisjoint(PLACEHOLDERS) and not is_gray:
        return None
    location = f"{shown_path(model.file)}:{model.line_of(('test_inputs',))}"
    return (
        f"{location}: test_inputs has a placeholder of `tritonstack new`: write inputs that your users send"
    )


def _described(placed: PlacedEntry) -> str:
    kind, name, _ = placed.path
    return f"{'image ' if kind == 'images' else ''}{name} {short_digest(placed.entry.digest)}"


_HUB = "hf://"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def source_warnings(document: Document[ModelSpec]) -> list[FileViolation]:
    """Return a warning if the source names a branch, a tag, or a short commit on the Hub."""
    source = document.record.source or ""
    revision = source.rpartition("@")[2]
    if not source.startswith(_HUB) or _COMMIT.fullmatch(revision):
        return []
    return [
        document.violation(
            ChangedSourceError,
            ("source",),
            f"{revision!r} is not a full commit hash: if it moves, the locked artifact stays as it is, and "
            "another machine can build other weights",
            "write the 40 hexadecimal digits of the commit, from the model's page on the Hub",
        )
    ]

"""Warnings about valid environments: what may fail at AWS, although no rule forbids it."""

from __future__ import annotations

from collections.abc import Iterator

from tritonstack.base.error_kinds import InstanceTypeError, UnavailableOptionError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document
from tritonstack.facts.drivers import chosen_ami, doubtful_ami
from tritonstack.project.checks.regions import region_warnings
from tritonstack.spec.endpoints.endpoint import EndpointSpec
from tritonstack.spec.endpoints.endpoint_rules import copies_per_machine
from tritonstack.spec.environments.environment import EnvironmentSpec

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

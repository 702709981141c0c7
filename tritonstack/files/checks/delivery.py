"""Check `delivery.yaml` against the environments and templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tritonstack.base import naming
from tritonstack.base.error_kinds import DeliveryError, MissingReferenceError, UnusableNameError
from tritonstack.base.errors import FileViolation
from tritonstack.base.yaml import Document, suggest
from tritonstack.facts.bootstrap import POLICIES_PER_ROLE, Bootstrap
from tritonstack.files.checks.regions import region_violations
from tritonstack.files.environment.delivery import DeliverySpec, PreviewDelivery
from tritonstack.files.environment.environment import EnvironmentSpec


def delivery_violations(
    document: Document[DeliverySpec],
    environments: Mapping[str, EnvironmentSpec | None],
    templates: Mapping[str, EnvironmentSpec | None],
) -> Iterator[FileViolation]:
    """Yield contradictions between the file and the environments and templates.

    Templates are passed as sample instances; invalid files as None.
    """
    for index, item in enumerate(document.record.environments):
        if item.name not in environments:
            yield _unknown(
                document, ("environments", index, "name"), item.name, environments, kind="environment"
            )
        elif (spec := environments[item.name]) is not None:
            place = ("environments", index, "name")
            yield from _has_distinct_names(document, place, spec)
            yield from _out_of_order(document, index, spec)
    yield from _policies_fit_one_role(document, environments)
    yield from region_violations(document)
    if document.record.previews is not None:
        yield from _previews_are_alone(document, document.record.previews, environments)
        yield from _previews_match_environment(document, document.record.previews, environments, templates)


def _policies_fit_one_role(
    document: Document[DeliverySpec], environments: Mapping[str, EnvironmentSpec | None]
) -> Iterator[FileViolation]:
    """Yield bootstraps whose role exceeds IAM's quota: it carries the execution policies of every
    environment."""
    sharing: dict[Bootstrap, list[str]] = {}
    for index, name in enumerate(document.record.names):
        if (spec := environments.get(name)) is None:
            continue
        names = sharing.setdefault(spec.bootstrap, [])
        names.append(name)
        policies = len(naming.execution_policy_names(spec.delivery_base)) * len(names)
        if policies > POLICIES_PER_ROLE:
            yield document.violation(
                DeliveryError,
                ("environments", index, "name"),
                f"{', '.join(names)} share one bootstrap of account {spec.account} in {spec.region}: their "
                f"{policies} execution policies exceed the {POLICIES_PER_ROLE} that IAM attaches to a role",
                f"give {name} a bootstrap_qualifier of its own, and bootstrap the account under it",
            )


def _unknown(
    document: Document[DeliverySpec],
    place: tuple[str | int, ...],
    name: str,
    names: Iterable[str],
    *,
    kind: str,
) -> FileViolation:
    return document.violation(
        MissingReferenceError,
        place,
        f"unknown {kind} {name!r}",
        suggest(name, names, f"available: {', '.join(names) or 'none'}"),
    )


def _has_distinct_names(
    document: Document[DeliverySpec], place: tuple[str | int, ...], spec: EnvironmentSpec
) -> Iterator[FileViolation]:
    """Check that names of environments and delivery roles are distinct."""
    if spec.name == naming.DELIVERY or spec.name.startswith(f"{naming.DELIVERY}-"):
        yield document.violation(
            UnusableNameError,
            place,
            f"the name of environment {spec.name!r} conflicts with the delivery roles of another one",
            "choose another name",
        )


def _previews_are_alone(
    document: Document[DeliverySpec], previews: PreviewDelivery, environments: Iterable[str]
) -> Iterator[FileViolation]:
    """Check that only previews have their name prefix: their role may delete all resources with it."""
    for name in environments:
        if name == previews.name_prefix or name.startswith(f"{previews.name_prefix}-"):
            yield document.violation(
                UnusableNameError,
                ("previews", "name_prefix"),
                f"environment {name!r} is named like a preview, and previews may be deleted",
                "choose another name_prefix",
            )


def _previews_match_environment(
    document: Document[DeliverySpec],
    previews: PreviewDelivery,
    environments: Mapping[str, EnvironmentSpec | None],
    templates: Mapping[str, EnvironmentSpec | None],
) -> Iterator[FileViolation]:
    """Check that previews and their environment share account and region, where their role is created."""
    if previews.template not in templates:
        yield _unknown(document, ("previews", "template"), previews.template, templates, kind="template")
        return
    sample, beside = templates[previews.template], environments.get(previews.environment)
    if sample is None or beside is None:
        return
    yield from _previews_are_bounded(document, sample, beside)
    yield from _previews_publish_separately(document, sample, environments.values())
    for field in ("account", "region", "name_prefix"):
        expected, actual = getattr(beside, field), getattr(sample, field)
        if expected != actual:
            yield document.violation(
                DeliveryError,
                ("previews", "environment"),
                f"{previews.template}.template.yaml has {field} {actual!r}, "
                f"but {beside.name} has {expected!r}",
                "name the environment whose account and region previews use, or make both equal",
            )


def _previews_are_bounded(
    document: Document[DeliverySpec], sample: EnvironmentSpec, beside: EnvironmentSpec
) -> Iterator[FileViolation]:
    """Check the permissions boundary: previews deploy unreviewed code, which could create any role."""
    if sample.permissions_boundary is None:
        yield document.violation(
            DeliveryError,
            ("previews", "template"),
            "its template has no permissions_boundary, so a pull request could create a role with any "
            "permissions",
            f"add permissions_boundary: {naming.preview_boundary_name(beside.delivery_base)} to the "
            f"template; the stack that delivers {beside.name} makes that policy",
        )


def _previews_publish_separately(
    document: Document[DeliverySpec], sample: EnvironmentSpec, environments: Iterable[EnvironmentSpec | None]
) -> Iterator[FileViolation]:
    """Check that previews cannot overwrite assets of the next deployment."""
    sharing = [spec.name for spec in environments if spec and spec.bootstrap == sample.bootstrap]
    if sharing:
        names = ", ".join(sharing)
        yield document.violation(
            DeliveryError,
            ("previews", "template"),
            f"previews would publish to {sample.bootstrap.bucket}, which deploys of {names} take from",
            "add a bootstrap_qualifier of their own to the template, such as `preview`, and bootstrap "
            "the account under it",
        )


def _out_of_order(
    document: Document[DeliverySpec], index: int, spec: EnvironmentSpec
) -> Iterator[FileViolation]:
    """Check that promotion sources come earlier in the delivery order."""
    if spec.promotion is None:
        return
    names = document.record.names
    if spec.promotion.source not in names[:index]:
        yield document.violation(
            DeliveryError,
            ("environments", index, "name"),
            f"{spec.name} is promoted from {spec.promotion.source!r}, which is not delivered before it",
            f"put {spec.promotion.source} before it, or change `promotion` in {spec.name}.yaml",
        )

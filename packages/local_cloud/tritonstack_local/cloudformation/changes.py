"""Compare a deployed stack with a template, in the order of the resources' dependencies.

Change sets and deployments use the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.evaluation import Evaluation, UnknownValue, first_unknown
from tritonstack_local.cloudformation.providers import UNSUPPORTED_TYPES
from tritonstack_local.cloudformation.providers.base import Provider
from tritonstack_local.cloudformation.template import Resource

Providers = Mapping[str, Provider]


Dependencies = Mapping[str, Set[str]]


def dependencies(resources: Mapping[str, Resource], *, declared: Iterable[str]) -> Dependencies:
    """Return the dependencies of each resource, from references and DependsOn.

    `declared` lists all resources of the template, including those with a false condition.
    """
    found = {}
    known = frozenset(declared)
    for logical_id, resource in resources.items():
        missing = [name for name in resource.depends_on if name not in known]
        if missing:
            raise TemplateError(f"Unresolved resource dependencies [{', '.join(missing)}] in the template")
        names = set(resource.depends_on) | set(references(resource.properties))
        found[logical_id] = frozenset(names & resources.keys())
    return found


def in_order(graph: Dependencies) -> tuple[str, ...]:
    """Return the resources in dependency order; raise an error that lists a circular dependency."""
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " -> ".join(error.args[1])
        raise TemplateError(f"Circular dependency between resources: [{circle}]") from error


def references(value: Any) -> Iterator[str]:
    """Yield every name that properties refer to, including parameters."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            yield from _named_by(key, member)
            yield from references(member)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def _named_by(function: str, argument: Any) -> Iterable[str]:
    if function == "Ref" and isinstance(argument, str):
        return (argument,)
    if function == "Fn::GetAtt":
        return (argument.split(".", 1)[0],) if isinstance(argument, str) else (str(argument[0]),)
    if function == "Fn::Sub":
        text = argument if isinstance(argument, str) else argument[0]
        return (name.strip().split(".", 1)[0] for name in re.findall(r"\$\{([^!}][^}]*)\}", text))
    return ()


class ResourceReplacement(StrEnum):
    """Whether a change replaces the resource, as in the API."""

    NEVER = "False"
    CONDITIONAL = "Conditional"
    ALWAYS = "True"


@dataclass(frozen=True)
class ResourceState:
    """A resource as its template declares it, with its resolved properties, physical id, and attributes."""

    resource: Resource
    properties: Mapping[str, Any] = field(default_factory=dict)
    depends_on: frozenset[str] = frozenset()
    physical_id: str = ""
    """Empty until it is known."""
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def logical_id(self) -> str:
        """The logical id."""
        return self.resource.logical_id

    @property
    def type(self) -> str:
        """The type."""
        return self.resource.type


@dataclass(frozen=True)
class PropertyChange:
    """One changed property."""

    name: str
    after: Any
    replacement: ResourceReplacement

    @property
    def caused_by(self) -> str | None:
        """The resource that causes this change, as `LogicalId` or `LogicalId.Attribute`."""
        unknown = first_unknown(self.after)
        return unknown.reference if unknown else None


@dataclass(frozen=True)
class Change:
    """The change of one resource: Add, Modify, or Remove."""

    action: str
    logical_id: str
    type: str
    before: ResourceState | None = None
    properties: tuple[PropertyChange, ...] = ()
    other_scopes: tuple[str, ...] = ()

    @property
    def replacement(self) -> ResourceReplacement:
        """Whether the resource is replaced."""
        severity = list(ResourceReplacement)
        return max((it.replacement for it in self.properties), key=severity.index, default=severity[0])


def compare(
    provider: Provider, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[PropertyChange, ...]:
    """Return the changed properties, and whether each requires replacement."""
    return tuple(
        PropertyChange(name, after.get(name), _replacement(provider, name, after.get(name)))
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    )


def _replacement(provider: Provider, name: str, after: Any) -> ResourceReplacement:
    if name not in provider.properties or not provider.properties[name].create_only:
        return ResourceReplacement.NEVER
    unknown = first_unknown(after)
    certain = unknown is None or unknown.certain
    return ResourceReplacement.ALWAYS if certain else ResourceReplacement.CONDITIONAL


def _other_scopes(before: Resource, after: Resource) -> tuple[str, ...]:
    """Return changes outside the properties."""
    scopes = {
        "Metadata": before.metadata != after.metadata,
        "DeletionPolicy": before.deletion_policy != after.deletion_policy,
        "UpdateReplacePolicy": before.update_replace_policy != after.update_replace_policy,
    }
    return tuple(name for name, differs in scopes.items() if differs)


@dataclass
class _PlannedValues:
    """The values of resources after a plan, as far as known before."""

    existing: Mapping[str, ResourceState]
    resources: Mapping[str, Resource]
    providers: Providers
    planned: dict[str, Change] = field(default_factory=dict)
    """The changes so far; later resources may depend on them."""

    def reference(self, logical_id: str) -> Any:
        """Return `Ref`; unknown for resources not created yet."""
        state = self._current_state(logical_id)
        return state if isinstance(state, UnknownValue) else state.physical_id

    def attribute(self, logical_id: str, attribute: str) -> Any:
        """Return `Fn::GetAtt`; unknown for values that do not exist yet or may change."""
        provider = self.providers[self.resources[logical_id].type]
        if attribute not in provider.attributes:
            known = ", ".join(sorted(provider.attributes)) or "none"
            raise TemplateError(
                f"{logical_id}: {provider.type_name} has no attribute {attribute} in the local cloud "
                f"(known: {known})"
            )
        state = self._current_state(logical_id)
        if isinstance(state, UnknownValue):
            return replace(state, reference=f"{logical_id}.{attribute}")
        change = self.planned.get(logical_id)
        changing = change is not None and bool(change.properties)
        if changing and attribute in provider.volatile_attributes:
            return UnknownValue(f"{logical_id}.{attribute}", certain=False)
        return state.attributes[attribute]

    def _current_state(self, logical_id: str) -> ResourceState | UnknownValue:
        change = self.planned.get(logical_id)
        replaced = change is not None and change.replacement is not ResourceReplacement.NEVER
        if logical_id not in self.existing or replaced:
            certain = change is None or change.replacement is not ResourceReplacement.CONDITIONAL
            return UnknownValue(logical_id, certain=certain)
        return self.existing[logical_id]


def plan_changes(
    *,
    existing: Mapping[str, ResourceState],
    evaluation: Evaluation,
    providers: Providers,
    tags: Mapping[str, str],
) -> tuple[Change, ...]:
    """Return the changes of a deployment in dependency order; removals come last, in reverse order.

    `tags` are the stack's tags, which apply to its resources too.
    """
    resources = evaluation.active_resources()
    graph = dependencies(resources, declared=evaluation.template.resources)
    _check_types(resources, existing, providers)
    answers = _PlannedValues(existing, resources, providers)
    violations: list[str] = []
    for logical_id in in_order(graph):
        resource = resources[logical_id]
        provider = providers[resource.type]
        after = provider.tagged(evaluation.resolve(resource.properties, answers), tags)
        violations.extend(provider.violations(logical_id, after))
        change = _planned_change(resource, existing.get(logical_id), after, provider)
        if change is not None:
            answers.planned[logical_id] = change
    if violations:
        raise TemplateError.listing(violations)
    evaluation.resolve_outputs(answers)
    return (*answers.planned.values(), *_removals(existing, resources))


def _check_types(
    resources: Mapping[str, Resource], existing: Mapping[str, ResourceState], providers: Providers
) -> None:
    if rejected := [
        f"{name}: {UNSUPPORTED_TYPES[resource.type]}"
        for name, resource in resources.items()
        if resource.type in UNSUPPORTED_TYPES
    ]:
        raise TemplateError.listing(rejected)
    if unknown := [f"{name} ({it.type})" for name, it in resources.items() if it.type not in providers]:
        raise TemplateError(
            f"Template format error: Unrecognized resource types: [{', '.join(unknown)}]; "
            "the local cloud does not implement them"
        )
    if changed := [
        name for name in existing.keys() & resources if resources[name].type != existing[name].type
    ]:
        raise TemplateError(
            "Update of resource type is not permitted. The new template modifies resource type of the "
            f"following resources: [{', '.join(sorted(changed))}]"
        )


def _planned_change(
    resource: Resource, before: ResourceState | None, after: Mapping[str, Any], provider: Provider
) -> Change | None:
    if before is None:
        return Change("Add", resource.logical_id, resource.type)
    properties = compare(provider, before.properties, after)
    scopes = _other_scopes(before.resource, resource)
    if not properties and not scopes:
        return None
    return Change("Modify", resource.logical_id, resource.type, before, properties, scopes)


def _removals(existing: Mapping[str, ResourceState], resources: Mapping[str, Resource]) -> tuple[Change, ...]:
    graph = {name: state.depends_on & existing.keys() for name, state in existing.items()}
    return tuple(
        Change("Remove", name, existing[name].type, before=existing[name])
        for name in reversed(in_order(graph))
        if name not in resources
    )

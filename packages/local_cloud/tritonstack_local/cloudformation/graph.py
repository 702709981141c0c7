"""Find dependencies between resources, and run work in dependency order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import CycleError, TopologicalSorter
from typing import Any

from tritonstack_local.cloudformation.errors import TemplateError
from tritonstack_local.cloudformation.template import Resource

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


_WORKERS = 8


def run_in_order(
    graph: Dependencies,
    action: Callable[[str], None],
    *,
    may_start: Callable[[bool], bool],
) -> dict[str, BaseException]:
    """Run `action` on every node in dependency order, and return the failures.

    `may_start(failed)` decides whether to start more nodes; dependents of failed nodes never start.
    """
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    failures: dict[str, BaseException] = {}
    running: dict[Future[None], str] = {}
    with ThreadPoolExecutor(max_workers=_WORKERS) as pool:
        while True:
            if may_start(bool(failures)):
                running |= {pool.submit(action, node): node for node in sorter.get_ready()}
            if not running:
                return failures
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                node, error = running.pop(future), future.exception()
                if error is None:
                    sorter.done(node)
                else:
                    failures[node] = error

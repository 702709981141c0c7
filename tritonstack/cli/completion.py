"""Complete names of environments, templates, endpoints, and models from the project's files.

A shell runs these functions on each press of the Tab key: they import little, and report no errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from tritonstack.base.paths import Project, find_project
from tritonstack.files.project.names import environment_names, model_names, template_names

Completer = Callable[[typer.Context, str], list[str]]


def _completer(find: Callable[[Project, typer.Context], Sequence[str]]) -> Completer:
    def complete(context: typer.Context, incomplete: str) -> list[str]:
        try:
            names = find(_project(context), context)
        except Exception:
            return []
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _project(context: typer.Context) -> Project:
    folder = context.find_root().params.get("project")
    return find_project(Path(folder) if folder else None)


def _endpoints(project: Project, context: typer.Context) -> list[str]:
    """Return the endpoints of the environment or template that was typed before."""
    from tritonstack.base.yaml import load_yaml  # noqa: PLC0415 - pydantic, for endpoints only

    # Before an option without its value, arguments are not assigned to parameters yet.
    typed = [context.params.get("environment"), *context.args]
    files = {name: project.environment_file(name) for name in environment_names(project)}
    files |= {name: project.template_file(name) for name in template_names(project)}
    file = next(files[word] for word in typed if word in files)
    return list(load_yaml(file.read_text(encoding="utf-8"))["endpoints"])


complete_environment = _completer(lambda project, _: environment_names(project))
"""Permanent environments."""
complete_deployable = _completer(lambda project, _: [*environment_names(project), *template_names(project)])
"""Permanent environments and templates."""
complete_model = _completer(lambda project, _: model_names(project))
"""Models."""
complete_endpoint = _completer(_endpoints)
"""Endpoints of the environment that was typed before."""


def complete_recipe(incomplete: str) -> list[str]:
    """Complete kinds of recipes."""
    from tritonstack.files.scaffold.model_files import RECIPES  # noqa: PLC0415 - loads the specification

    return [kind for kind in RECIPES if kind.startswith(incomplete)]


def complete_example(incomplete: str) -> list[str]:
    """Complete names of examples."""
    from tritonstack.files.scaffold.repository import examples  # noqa: PLC0415 - loads the templates

    return [name for name in examples() if name.startswith(incomplete)]

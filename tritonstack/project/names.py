"""Names of a project's environments, templates, and models, from the names of their files."""

from __future__ import annotations

from tritonstack.base.paths import LOCK_SUFFIX, TEMPLATE_SUFFIX, Project


def environment_names(project: Project) -> list[str]:
    """Return the permanent environments of a project, sorted."""
    files = project.environments_dir.glob("*.yaml")
    return sorted(file.stem for file in files if not file.name.endswith((LOCK_SUFFIX, TEMPLATE_SUFFIX)))


def template_names(project: Project) -> list[str]:
    """Return the templates of a project, sorted."""
    files = project.environments_dir.glob(f"*{TEMPLATE_SUFFIX}")
    return sorted(file.name.removesuffix(TEMPLATE_SUFFIX) for file in files)


def model_names(project: Project) -> list[str]:
    """Return the models of a project, sorted."""
    return sorted(file.parent.name for file in project.models_dir.glob("*/model.yaml"))

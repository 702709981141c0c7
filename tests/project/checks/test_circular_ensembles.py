"""Ensembles that contain themselves are reported, whichever part of validation meets them first."""

import pytest

from tests.projects import edit
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.paths import Project
from tritonstack.project.loading import load_workspace

ENSEMBLE = """\
name: {name}
description: A pipeline.
recipe: {{kind: ensemble, steps: [{{model: {first}}}, {{model: {second}}}], outputs: [y]}}
test_inputs: [a]
"""


def write_ensemble(project: Project, name: str, first: str, second: str) -> None:
    file = project.model_file(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(ENSEMBLE.format(name=name, first=first, second=second))


@pytest.mark.parametrize(
    "steps",
    [
        {"loop": ("loop", "loop")},
        {"loop": ("minilm", "loop")},
        {"loop": ("other", "minilm"), "other": ("minilm", "loop")},
    ],
    ids=["of itself only", "of itself and another", "of another that contains it"],
)
def test_a_circular_ensemble_of_an_endpoint_is_reported(project, steps):
    for name, (first, second) in steps.items():
        write_ensemble(project, name, first, second)
    edit(project.environment_file("dev"), "model: minilm", "model: loop")
    with pytest.raises(InvalidFilesError) as error:
        load_workspace(project, "dev")
    circular = [violation for violation in error.value.violations if violation.code == "TS214"]
    assert circular
    assert all("circular ensemble: " in violation.message for violation in circular)

"""Fields that exclude each other: one error names all of them with their lines, whatever their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projects import ENVIRONMENT
from tritonstack.base.errors import InvalidFilesError
from tritonstack.base.yaml import Record, load_document
from tritonstack.files.environment.delivery import DeliverySpec, PipelineDelivery
from tritonstack.files.environment.environment import EnvironmentSpec
from tritonstack.files.environment.network import NetworkSpec
from tritonstack.files.model.model import ModelSpec
from tritonstack.files.model.triton_options import VersionPolicy

MODEL = "name: m\ndescription: M.\nsource: file://w\ntest_inputs: [{random: {}}]\n"
PYTHON = "recipe:\n  kind: python\n"
DELIVERY = "repository: example/shop\nenvironments: [{name: dev}]\n"
PIPELINE = '  account: "111111111111"\n  region: eu-west-1\n'
FILES: dict[type[Record], tuple[type[Record], str, str]] = {
    NetworkSpec: (EnvironmentSpec, f"{ENVIRONMENT}network:\n", "network"),
    PipelineDelivery: (DeliverySpec, f"{DELIVERY}pipeline:\n{PIPELINE}", "pipeline"),
    VersionPolicy: (ModelSpec, f"{MODEL}{PYTHON}triton:\n versions:\n", "triton.versions"),
}
"""The record type of a file, its text up to the fields of a record, and their place."""
INVALID = ("{}", "[[]]", "{unknown: 1}")


def indent_of(text: str) -> str:
    """Return the indent of the next field: below a line that ends a mapping's key, or beside a field."""
    last = text.splitlines()[-1]
    if last.startswith("  ") and not last.endswith((":", "-")):
        return "  "
    return " " * (len(last) - len(last.lstrip()) + 2)


@pytest.mark.parametrize("value", INVALID)
@pytest.mark.parametrize("record", FILES, ids=lambda record: record.__name__)
def test_several_alternatives_give_one_error_with_each_line(
    tmp_path: Path, record: type[Record], value: str
) -> None:
    kind, text, path = FILES[record]
    (choice,) = record.alternatives
    indent, file = indent_of(text), tmp_path / "file.yaml"
    file.write_text(text + "".join(f"{indent}{name}: {value}\n" for name in choice.names))
    first = len(text.splitlines()) + 1
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, kind)
    (violation,) = caught.value.violations
    assert (violation.field, violation.code) == (f"{path}.{choice.names[-1]}", "TS114")
    assert violation.line == first + len(choice.names) - 1
    for name in choice.names:
        assert f"`{name}`" in violation.message.partition(", got ")[0]
    for number, name in enumerate(choice.names, first):
        assert f"`{name}` (line {number})" in violation.message
    assert violation.remedy.startswith(("remove one", "keep one"))


@pytest.mark.parametrize(
    "record",
    [record for record in FILES if record.alternatives[0].required],
    ids=lambda record: record.__name__,
)
def test_no_alternative_gives_one_error_with_all_names(tmp_path: Path, record: type[Record]) -> None:
    kind, text, path = FILES[record]
    file = tmp_path / "file.yaml"
    file.write_text(text if text.endswith("eu-west-1\n") else text.rstrip("\n") + " {}\n")
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, kind)
    (violation,) = caught.value.violations
    assert (violation.field, violation.code) == (path, "TS106")
    (choice,) = record.alternatives
    assert all(f"`{name}`" in violation.message for name in choice.names)


def test_other_errors_of_the_same_mapping_are_reported_too(tmp_path: Path) -> None:
    file = tmp_path / "dev.yaml"
    file.write_text(f"{ENVIRONMENT}network:\n  create: {{}}\n  existing: {{}}\n  creat: {{}}\nregion_: x\n")
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, EnvironmentSpec)
    assert {violation.field for violation in caught.value.violations} == {
        "network.existing",
        "network.creat",
        "region_",
    }


def test_context_beside_a_text_is_removed_and_not_completed(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODEL.replace("{random: {}}", "{text: a, context: b}") + PYTHON)
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    (violation,) = caught.value.violations
    assert "remove `context`" in str(violation.remedy)


def test_an_empty_list_beside_an_alternative_is_not_given(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(MODEL + PYTHON + "triton:\n  versions: {latest: 2, specific: []}\nunknown: 1\n")
    with pytest.raises(InvalidFilesError) as caught:
        load_document(file, ModelSpec)
    assert [violation.field for violation in caught.value.violations] == ["unknown"]

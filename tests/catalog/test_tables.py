"""The tables that stand in for calls to AWS, against the models that AWS publishes."""

from __future__ import annotations

import json
import re

import botocore.session
import jsonschema
import pytest
import yaml

from catalog.endpoints import LOG_RETENTION_DAYS
from catalog.hardware import FAMILIES, INSTANCE_TYPES
from catalog.images import image_uri
from catalog.project import find_project
from catalog.releases import RELEASES
from catalog.schemas import schema_files
from catalog.targets import Target, acceptable_targets, hardware_target, parse_target


def test_instance_types_equal_sagemakers_own_list() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(INSTANCE_TYPES) == set(model.shape_for("ProductionVariantInstanceType").enum)


def test_log_retention_periods_are_those_that_cloudwatch_documents() -> None:
    # botocore lists the periods only in the documentation of the operation's parameter.
    model = botocore.session.get_session().get_service_model("logs")
    parameter = model.operation_model("PutRetentionPolicy").input_shape.members["retentionInDays"]
    sentence = re.search(r"Possible values are: ([\d, and]+)", parameter.documentation)
    assert sentence is not None
    assert tuple(map(int, re.findall(r"\d+", sentence[1]))) == LOG_RETENTION_DAYS


def test_every_gpu_family_has_a_compute_capability() -> None:
    for family in FAMILIES.values():
        assert (family.accelerator == "gpu") == (family.compute_capability is not None), family.name


def test_image_uri() -> None:
    assert image_uri(region="eu-west-1", release="25.04", gpu=False) == (
        "763104351884.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tritonserver:25.04-py3-cpu"
    )


@pytest.mark.parametrize("text", ["cpu", "cpu-py310", "sm86-24.09", "sm120-25.04-py312"])
def test_targets_are_read_back_as_written(text: str) -> None:
    assert str(parse_target(text)) == text


@pytest.mark.parametrize("text", ["", "gpu", "sm8-24.09", "sm86", "cpu-python3", "cpu "])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a target"):
        parse_target(text)


def test_the_target_follows_from_instance_and_release() -> None:
    release = RELEASES["24.09"]
    assert hardware_target(INSTANCE_TYPES["ml.g5.xlarge"], release) == "sm86-24.09"
    assert acceptable_targets(INSTANCE_TYPES["ml.c7i.large"], release) == ("cpu-py310", "cpu")
    assert str(Target("cpu", "py312")) == "cpu-py312"


def test_schemas_on_disk_are_those_of_the_types() -> None:
    for file, text in schema_files():
        assert file.read_text() == text, f"{file.name} is out of date: run `make schemas`"


def test_the_repositorys_files_fit_the_schemas() -> None:
    project = find_project()
    schemas = {file.name.partition(".")[0]: json.loads(text) for file, text in schema_files()}
    for file in project.models_dir.glob("*/model.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text()), schemas["model"])
    for file in project.environments_dir.glob("*.yaml"):
        kind = "lock" if file.name.endswith(".lock.yaml") else "environment"
        jsonschema.validate(yaml.safe_load(file.read_text()), schemas[kind])

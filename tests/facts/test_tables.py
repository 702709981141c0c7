"""The tables that replace AWS calls, compared with the models that AWS publishes."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import jsonschema
import pytest
import yaml

from tritonstack.base.paths import find_project
from tritonstack.facts.hardware import FAMILIES, INSTANCE_TYPES
from tritonstack.facts.images import ACCOUNTS
from tritonstack.facts.regions import OFFERED
from tritonstack.facts.releases import RELEASES
from tritonstack.facts.targets import Target, acceptable_targets, hardware_target, parse_target
from tritonstack.files.endpoint.endpoint import LOG_RETENTION_DAYS
from tritonstack.files.project.schemas import schema_files


def test_instance_types_equal_sagemakers_own_list():
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(INSTANCE_TYPES) == set(model.shape_for("ProductionVariantInstanceType").enum)


def ec2_types() -> dict[str, Any]:
    """Return EC2's DescribeInstanceTypes of every type, as moto ships it."""
    import moto.ec2  # slow, and for this alone

    with gzip.open(Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz") as file:
        types: dict[str, Any] = json.load(file)
        return types


def test_machines_are_those_of_ec2():
    described, unknown = ec2_types(), set()
    for name, instance in INSTANCE_TYPES.items():
        facts = described.get(name.removeprefix("ml."))
        if facts is None:
            unknown.add(instance.family.name)
            continue
        (gpu,) = facts.get("GpuInfo", {}).get("Gpus", [{}])
        assert instance.vcpus == facts["VCpuInfo"]["DefaultVCpus"], name
        assert instance.memory_gib * 1024 == facts["MemoryInfo"]["SizeInMiB"], name
        assert instance.gpus == gpu.get("Count", 0), name
        assert instance.family.gpu == gpu.get("Name"), name
        if instance.family.runs_triton:
            assert instance.family.local_storage == facts["InstanceStorageSupported"], name
    # EC2 no longer sells these, or sells them under another name.
    assert unknown == {"p2", "p3", "p6e-gb200", "dl1"}


@pytest.mark.parametrize(
    ("name", "vcpus", "memory", "gpus"),
    [
        ("ml.p2.16xlarge", 64, 732, 16),
        ("ml.p3.8xlarge", 32, 244, 4),
        ("ml.p6e-gb200.36xlarge", 144, 960, 4),
    ],
)
def test_machines_that_ec2_does_not_describe_match_the_aws_pages(name, vcpus, memory, gpus):
    instance = INSTANCE_TYPES[name]
    assert (instance.vcpus, instance.memory_gib, instance.gpus) == (vcpus, memory, gpus)


def test_regions_offer_what_awss_price_list_names():
    from cfnlint.data.schemas.extensions import aws_sagemaker_hosting  # slow, and for this test alone

    listed = json.loads((Path(aws_sagemaker_hosting.__file__).parent / "instancetype_enum.json").read_text())
    assert set(OFFERED) == set(ACCOUNTS)
    for region, families in OFFERED.items():
        priced = {name.split(".")[1] for name in listed[region]["enum"]}
        triton = {family.name for family in FAMILIES.values() if family.runs_triton}
        assert set(families) == priced & triton, region


AWS_LISTS = {
    # docs/src/data/sagemaker-tritonserver
    "e0ecedea6a1c56d6b5914f9cfb2fec5c548e67e0": "23.12 24.01 24.03 24.05 24.09 25.04 25.09 26.03",
    # release_images_inference.yml, the releases that AWS's pipeline published before the list had them
    "f07e3c634c19614fea3e21065da24484658b9000": "26.04",
    "4fd9b73fc963474ea28ced9a336f62306ffa79c1": "26.05",
}
"""Triton releases with an image at AWS, by commit of aws/deep-learning-containers."""


def test_each_release_has_an_image_at_aws():
    assert set(RELEASES) == {release for listed in AWS_LISTS.values() for release in listed.split()}


def test_log_retention_periods_are_those_that_cloudwatch_documents():
    # botocore lists the periods only in the documentation of the operation's parameter.
    model = botocore.session.get_session().get_service_model("logs")
    parameter = model.operation_model("PutRetentionPolicy").input_shape.members["retentionInDays"]
    sentence = re.search(r"Possible values are: ([\d, and]+)", parameter.documentation)
    assert sentence is not None
    assert tuple(map(int, re.findall(r"\d+", sentence[1]))) == LOG_RETENTION_DAYS


def test_every_gpu_family_has_a_compute_capability():
    for family in FAMILIES.values():
        assert (family.accelerator == "gpu") == (family.compute_capability is not None), family.name


@pytest.mark.parametrize("text", ["cpu", "cpu-py310", "sm86-24.09", "sm120-25.04-py312"])
def test_targets_are_read_back_as_written(text):
    assert str(parse_target(text)) == text


@pytest.mark.parametrize("text", ["", "gpu", "sm8-24.09", "sm86", "cpu-python3", "cpu "])
def test_invalid_targets_are_rejected(text):
    with pytest.raises(ValueError, match="invalid target"):
        parse_target(text)


def test_the_target_follows_from_instance_and_release():
    release = RELEASES["24.09"]
    assert hardware_target(INSTANCE_TYPES["ml.g5.xlarge"], release) == "sm86-24.09"
    assert acceptable_targets(INSTANCE_TYPES["ml.c7i.large"], release) == ("cpu-py310", "cpu")
    assert str(Target("cpu", "py312")) == "cpu-py312"


def test_schemas_on_disk_are_those_of_the_types():
    files = list(schema_files())
    assert {file.name for file, _ in files} >= {"model.schema.json", "environment.schema.json"}
    for file, text in files:
        assert file.read_text() == text, f"{file.name} is out of date: run `make schemas`"


def test_the_repositorys_files_fit_the_schemas():
    project = find_project()
    schemas = {file.name.partition(".")[0]: json.loads(text) for file, text in schema_files()}
    for file in project.models_dir.glob("*/model.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text()), schemas["model"])
    for file in project.environments_dir.glob("*.yaml"):
        kinds = {".lock": "lock", ".template": "template"}
        kind = kinds.get(Path(file.stem).suffix, "environment")
        jsonschema.validate(yaml.safe_load(file.read_text()), schemas[kind])

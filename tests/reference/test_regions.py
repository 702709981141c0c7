"""Features of regions: the generated table, errors, warnings, and confirmations in a file."""

import json
import re
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from tests.environments import NAME, write_environment
from tests.project.one_endpoint import complaints, environment
from tests.sample_templates import delivery_templates, sample_templates
from tritonstack.base.errors import InvalidFilesError, UsageError
from tritonstack.base.yaml import parse_document
from tritonstack.project.checks.regions import pipeline_violations, pipeline_warnings, region_warnings
from tritonstack.project.loading import load_workspace
from tritonstack.reference.images import ACCOUNTS, image_account
from tritonstack.reference.region_features import (
    FEATURES,
    SERVICES,
    missing_feature,
    zone_id_prefix,
    zones_of,
)
from tritonstack.spec.environments.delivery import DeliverySpec

ROOT = Path(__file__).resolve().parents[2]
NO_BUILDS = ("ap-east-2", "ca-west-1", "mx-central-1")
CHEAP = "instance_type: ml.m7i.large"
COMPONENTS = (
    "instance_type: ml.c5.xlarge, components: {memory_mb: 1024, max_copies: 2}, "
    "scaling: {min_instances: 1, max_instances: 1}"
)


def warnings_of(folder: Path, endpoint: str, **changes: object) -> list[str]:
    project = write_environment(folder, environment(endpoint, **changes))
    found = region_warnings(load_workspace(project, NAME).environment)
    return [f"{item.line}: {item.field}: {item.message} -- {item.remedy}" for item in found]


@pytest.mark.e2e
def test_table_and_page_match_aws():
    """If this fails after an update of cfn-lint or boto3, run `python -m tools.region_table`."""
    from tools import region_table  # slow: it reads every region's schemas

    assert region_table.TABLE.read_text() == region_table.table_text()
    page = region_table.PAGE.read_text()
    assert page == region_table.page_text(page)


def test_every_type_in_the_templates_belongs_to_a_feature():
    """New resource types of the stacks must be added to the table."""
    used = set[str]()
    for template in (*sample_templates().values(), *delivery_templates().values()):
        used |= {resource["Type"] for resource in template["Resources"].values()}
    assert len(used) > 30
    assert used <= {kind for feature in FEATURES.values() for kind in feature.types}


def test_every_service_prefixes_a_type():
    types = {kind.rpartition("::")[0] for feature in FEATURES.values() for kind in feature.types}
    assert set(SERVICES) <= types


@pytest.mark.e2e
def test_used_properties_are_in_every_regions_schema():
    """The table contains only types, because no region lacks a property that the stacks use."""
    import cfnlint

    schemas = Path(cfnlint.__file__).parent / "data" / "schemas"
    used: dict[str, set[tuple[str, ...]]] = {}
    for template in (*sample_templates().values(), *delivery_templates().values()):
        for resource in template["Resources"].values():
            used.setdefault(resource["Type"], set()).update(paths(resource.get("Properties", {})))
    checked, cache = 0, dict[str, Any]()
    for region in ACCOUNTS:
        file = schemas / "providers" / f"{region}.json"
        types = json.loads(file.read_text()) if file.exists() else {}
        for kind in used.keys() & types.keys():
            digest = types[kind]
            if digest not in cache:
                cache[digest] = json.loads((schemas / "resources" / f"{digest}.json").read_text())
            missing = [path for path in used[kind] if not allows(cache[digest], cache[digest], path)]
            assert not missing, (region, kind)
            checked += 1
    assert checked > 900


def paths(value: Any, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the properties below a value, unless an intrinsic function hides them."""
    if isinstance(value, list):
        return [path for item in value for path in paths(item, (*before, "*"))]
    if not isinstance(value, dict) or any(key == "Ref" or key.startswith("Fn::") for key in value):
        return []
    return [path for key, item in value.items() for path in ((*before, key), *paths(item, (*before, key)))]


def allows(schema: Any, node: Any, path: tuple[str, ...]) -> bool:
    """Return whether a resource's schema has a property, if it lists its properties."""
    if "$ref" in node:
        found = schema
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return allows(schema, found, path)
    if not path:
        return True
    first, *rest = path
    if first == "*":
        return "items" not in node or allows(schema, node["items"], tuple(rest))
    known = node.get("properties")
    if known is None:
        return True
    if first not in known:
        return node.get("additionalProperties") is not False
    return allows(schema, known[first], tuple(rest))


@pytest.mark.parametrize("region", NO_BUILDS)
def test_builds_are_rejected_in_regions_without_codebuild(region, tmp_path):
    instance = "instance_type: ml.c6i.large"
    (complaint,) = complaints(tmp_path / "a", environment(instance, region=region))
    start = (
        f"region: CloudFormation's schemas of {region} do not list AWS::CodeBuild::Project, and the AWS SDK "
        "has no codebuild endpoint there -- write `builds: {enabled: false}` and run "
        "`tritonstack build random --local`, or choose another region, such as "
    )
    assert complaint.startswith(start)
    assert complaint.endswith("; if AWS has added it, add 'builds' to `region_features`")
    for number, change in enumerate(({"builds": {"enabled": False}}, {"region_features": ["builds"]})):
        data = environment(instance, region=region, **change)
        load_workspace(write_environment(tmp_path / str(number), data), NAME)


def test_only_these_regions_have_no_builds():
    missing = {
        region for region in ACCOUNTS if (found := missing_feature(region, "builds")) and found.certain
    }
    assert missing == set(NO_BUILDS)


def test_components_missing_from_schemas_are_a_warning(tmp_path):
    (warning,) = warnings_of(tmp_path / "a", COMPONENTS, region="eu-west-3")
    assert re.fullmatch(
        r"\d+: endpoints\.e\.components: CloudFormation's schemas of eu-west-3 do not list "
        r"AWS::SageMaker::InferenceComponent; if AWS does not offer inference-components there, the "
        r"deployment fails -- choose another region, such as eu-central-1 or eu-north-1 or eu-west-1; or "
        r"check AWS, then add 'inference-components' to `region_features`",
        warning,
    )
    assert warnings_of(tmp_path / "b", COMPONENTS, region="eu-west-1") == []
    assert warnings_of(tmp_path / "c", "instance_type: ml.c5.xlarge", region="eu-west-3") == []
    confirmed = {"region": "eu-west-3", "region_features": ["inference-components"]}
    assert warnings_of(tmp_path / "d", COMPONENTS, **confirmed) == []


def test_components_may_be_unavailable_in_seventeen_regions():
    doubtful = [region for region in ACCOUNTS if missing_feature(region, "inference-components")]
    assert len(doubtful) == 17
    assert {"eu-west-3", "us-west-1"} <= set(doubtful)


ZERO = COMPONENTS.replace("min_instances: 1", "min_instances: 0")


def test_scale_to_zero_is_a_feature_of_its_own(tmp_path):
    """eu-west-3 refused it, us-east-1 accepted it, and nobody knows of the others."""
    assert warnings_of(tmp_path / "a", ZERO, region="us-east-1") == []
    (warning,) = warnings_of(tmp_path / "b", ZERO, region="eu-west-1")
    assert "endpoints.e.scaling.min_instances: " in warning
    assert "add 'scale-to-zero' to `region_features`" in warning
    components = {"region": "eu-west-3", "region_features": ["inference-components"]}
    (complaint,) = complaints(tmp_path / "c", environment(ZERO, **components))
    assert complaint.startswith("endpoints.e.scaling.min_instances: SageMaker in eu-west-3 refuses ")
    load_workspace(write_environment(tmp_path / "d", environment(COMPONENTS, **components)), NAME)
    confirmed = {"region": "eu-west-3", "region_features": ["inference-components", "scale-to-zero"]}
    assert warnings_of(tmp_path / "e", ZERO, **confirmed) == []


def test_a_region_without_schemas_is_one_warning(tmp_path):
    (warning,) = warnings_of(tmp_path / "a", "instance_type: ml.c5.xlarge", region="me-south-1")
    assert "region: no CloudFormation schemas for me-south-1" in warning
    listed = re.search(r"`region_features: \[(.*)\]`", warning)
    assert listed is not None
    features = listed[1].split(", ")
    assert (
        warnings_of(
            tmp_path / "b", "instance_type: ml.c5.xlarge", region="me-south-1", region_features=features
        )
        == []
    )


def test_network_spans_at_most_the_available_zones(tmp_path):
    network = {"create": {"availability_zones": 3}}
    instance = "instance_type: ml.c5.xlarge"
    assert complaints(tmp_path / "a", environment(instance, region="us-west-1", network=network)) == [
        "network.create.availability_zones: accounts see 2 Availability Zones in us-west-1, got 3 -- write "
        "`availability_zones: 2`, or choose another region"
    ]
    for number, (region, zones) in enumerate((("us-west-1", 2), ("us-west-2", 3))):
        data = environment(instance, region=region, network={"create": {"availability_zones": zones}})
        load_workspace(write_environment(tmp_path / str(number), data), NAME)
    assert [region for region in ACCOUNTS if zones_of(region) < 3] == ["us-west-1"]


@pytest.mark.parametrize(
    ("create", "field", "code"),
    [
        ({"availability_zone_ids": ["use1-az1", "usw1-az3"]}, "availability_zone_ids.0", "TS206"),
        ({"availability_zone_ids": ["usw1-az1"]}, "availability_zone_ids", "TS111"),
        ({"availability_zone_ids": ["usw1-az1"] * 2}, "availability_zone_ids.1", "TS111"),
        ({"availability_zone_ids": ["usw1-az1", "us-west-1b"]}, "availability_zone_ids.1", "TS111"),
        (
            {"availability_zones": 2, "availability_zone_ids": ["usw1-az1", "usw1-az3"]},
            "availability_zones",
            "TS114",
        ),
        (
            {"availability_zone_ids": ["usw1-az1", "usw1-az2", "usw1-az3"]},
            "availability_zone_ids",
            "TS206",
        ),
    ],
)
def test_zone_ids_are_those_of_the_region(tmp_path, create, field, code):
    data = environment("instance_type: ml.c5.xlarge", region="us-west-1", network={"create": create})
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(write_environment(tmp_path, data), NAME)
    assert [(found.field, found.code) for found in caught.value.violations] == [
        (f"network.create.{field}", code)
    ]


def test_zone_ids_begin_with_their_region():
    """moto has the zones of each region from AWS."""
    regions = set(RegionsAndZonesBackend.zones) & set(ACCOUNTS)
    zones = [(region, zone.zone_id) for region in regions for zone in RegionsAndZonesBackend.zones[region]]
    assert zones
    assert all(zone_id.startswith(zone_id_prefix(region)) for region, zone_id in zones)


def test_an_unknown_feature_is_rejected(tmp_path):
    data = environment(CHEAP, region_features=["inference-component"])
    assert complaints(tmp_path, data) == [
        "region_features.0: unknown feature 'inference-component' -- did you mean 'inference-components'?"
    ]


PIPELINE = """\
repository: example/tritonstack
environments: [{{name: dev}}]
pipeline:
  account: "333333333333"
  region: {region}
  bucket: {{bucket: a-bucket, key: source.zip}}
{more}"""


@pytest.mark.parametrize(
    ("region", "more", "rejected", "warned"),
    [
        ("eu-west-1", "", False, False),
        ("ca-west-1", "", True, False),
        ("ca-west-1", "  region_features: [pipeline]\n", False, False),
        ("me-south-1", "", False, True),
        ("me-south-1", "  region_features: [pipeline]\n", False, False),
    ],
)
def test_a_pipelines_region(region, more, rejected, warned):
    text = PIPELINE.format(region=region, more=more)
    document = parse_document(text, Path("delivery.yaml"), DeliverySpec)
    violations, warnings = list(pipeline_violations(document)), pipeline_warnings(document)
    assert (bool(violations), bool(warnings)) == (rejected, warned)
    for violation in (*violations, *warnings):
        assert "CloudFormation" in str(violation)
        assert str(violation).startswith("delivery.yaml:5: pipeline.region: ")
        assert "pipeline" in str(violation.remedy)


def test_other_partitions_are_rejected_as_such(tmp_path):
    """SageMaker has Triton images in China; this project lacks support for the partition."""
    session = botocore.session.get_session()
    regions = [
        region
        for partition in session.get_available_partitions()
        if partition != "aws"
        for region in session.get_available_regions("sagemaker", partition)
    ]
    assert {"cn-north-1", "us-gov-west-1"} <= set(regions)
    for number, region in enumerate(regions):
        (complaint,) = complaints(tmp_path / str(number), environment(CHEAP, region=region))
        assert re.match(
            rf"region: the AWS (China|GovCloud|ISO|European).* not supported, got region '{region}'",
            complaint,
        )
        with pytest.raises(UsageError, match="is not supported"):
            image_account(region)


def test_synth_warns(tmp_path):
    from stacks.environment import add_environment  # slow
    from tests.stacks.assemblies import messages_of, new_app

    data = environment(COMPONENTS, region="eu-west-3", builds={"enabled": False})
    workspace = load_workspace(write_environment(tmp_path, data), NAME)
    app = new_app(tmp_path / "out")
    add_environment(app, workspace=workspace)
    absent = "do not list AWS::SageMaker::InferenceComponent"
    assert any(absent in message for message in messages_of(app))


def test_a_project_names_the_faulty_field(tmp_path):
    project = write_environment(tmp_path, environment("instance_type: ml.c6i.large", region="mx-central-1"))
    with pytest.raises(InvalidFilesError) as caught:
        load_workspace(project, NAME)
    (violation,) = caught.value.violations
    line = project.environment_file(NAME).read_text().splitlines()[(violation.line or 0) - 1]
    assert line == "region: mx-central-1"

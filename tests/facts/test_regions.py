"""Features of regions: the generated table, errors, warnings, and confirmations in a file."""

import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from tests.environments import NAME, write_environment
from tests.files.one_endpoint import coded, complaints, environment, names
from tests.sample_templates import delivery_templates, sample_templates
from tritonstack.base.errors import FileViolation, UsageError
from tritonstack.base.yaml import parse_document
from tritonstack.facts.images import ACCOUNTS, image_account
from tritonstack.facts.region_features import (
    FEATURES,
    zone_id_prefix,
)
from tritonstack.files.checks.regions import region_violations, region_warnings
from tritonstack.files.environment.delivery import DeliverySpec
from tritonstack.files.loading import load_workspace

CHEAP = "instance_type: ml.m7i.large"
COMPONENTS = (
    "instance_type: ml.c5.xlarge, components: {memory_mb: 1024, max_copies: 2}, "
    "scaling: {min_instances: 1, max_instances: 1}"
)


def warnings_of(folder: Path, endpoint: str, **changes: object) -> list[FileViolation]:
    project = write_environment(folder, environment(endpoint, **changes))
    return region_warnings(load_workspace(project, NAME).environment)


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


ZERO = COMPONENTS.replace("min_instances: 1", "min_instances: 0")
SIMPLE = "instance_type: ml.c5.xlarge"


@pytest.mark.parametrize(
    ("endpoint", "region", "confirmed", "field", "words"),
    [
        (COMPONENTS, "eu-west-3", [], "endpoints.e.components", "eu-central-1 'inference-components'"),
        (COMPONENTS, "eu-west-3", ["inference-components"], "", ""),
        (COMPONENTS, "eu-west-1", [], "", ""),
        (SIMPLE, "eu-west-3", [], "", ""),
        # eu-west-3 refused to scale to zero, us-east-1 accepted it, and nobody knows of the others.
        (ZERO, "us-east-1", [], "", ""),
        (ZERO, "eu-west-1", [], "endpoints.e.scaling.min_instances", "'scale-to-zero' `region_features`"),
        (ZERO, "eu-west-3", ["inference-components", "scale-to-zero"], "", ""),
        (SIMPLE, "me-south-1", [], "region", "me-south-1 `region_features: [environment"),
        (SIMPLE, "me-south-1", ["environment", "builds", "endpoints", "scaling"], "", ""),
    ],
)
def test_a_feature_that_aws_does_not_document_is_a_warning(
    tmp_path, endpoint, region, confirmed, field, words
):
    warnings = warnings_of(tmp_path, endpoint, region=region, region_features=confirmed)
    assert [coded(warning) for warning in warnings] == [(field, "TS206")] * bool(field)
    assert all(warning.line and names(warning, words) for warning in warnings), warnings


def test_zone_ids_begin_with_their_region():
    """moto has the zones of each region from AWS."""
    regions = set(RegionsAndZonesBackend.zones) & set(ACCOUNTS)
    zones = [(region, zone.zone_id) for region in regions for zone in RegionsAndZonesBackend.zones[region]]
    assert zones
    assert all(zone_id.startswith(zone_id_prefix(region)) for region, zone_id in zones)


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
    violations, warnings = list(region_violations(document)), region_warnings(document)
    assert (bool(violations), bool(warnings)) == (rejected, warned)
    for violation in (*violations, *warnings):
        assert (violation.line, *coded(violation)) == (5, "pipeline.region", "TS206")
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
        assert complaints(tmp_path / str(number), environment(CHEAP, region=region)) == [("region", "TS111")]
        with pytest.raises(UsageError, match=region):
            image_account(region)


def test_synth_warns(tmp_path):
    from stacks.environment import add_environment  # slow
    from tests.stacks.assemblies import messages_of, new_app

    data = environment(COMPONENTS, region="eu-west-3", builds={"enabled": False})
    workspace = load_workspace(write_environment(tmp_path, data), NAME)
    app = new_app(tmp_path / "out")
    add_environment(app, workspace=workspace)
    assert any("AWS::SageMaker::InferenceComponent" in message for message in messages_of(app))

"""AWS features that the stacks need, and regions that may lack them.

A region definitely lacks a feature if two lists that AWS publishes agree: the region's CloudFormation schemas
lack a resource type, and the AWS SDK has no endpoint of the service there. If only the schemas lack it, the
region may still have it. Both lists are in region_table.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from tritonstack.base.yaml import check_distinct, suggest
from tritonstack.facts.region_table import (
    FEW_ZONES,
    MISSING_SERVICES,
    MISSING_TYPES,
    REGIONS_WITHOUT_SCHEMAS,
)


@dataclass(frozen=True)
class Feature:
    """A part of the stacks, and its CloudFormation resource types."""

    name: str
    types: tuple[str, ...]


SERVICES: dict[str, str] = {
    "AWS::ApplicationAutoScaling": "application-autoscaling",
    "AWS::CodeBuild": "codebuild",
    "AWS::CodePipeline": "codepipeline",
    "AWS::SageMaker": "sagemaker",
}
"""SDK service names by resource type prefix, for services that a region may lack."""


_TYPES: dict[str, str] = {
    "environment": "CloudWatch::Alarm CloudWatch::Dashboard ECR::Repository Events::Rule IAM::ManagedPolicy "
    "IAM::OIDCProvider IAM::Policy IAM::Role KMS::Alias KMS::Key Logs::LogGroup Logs::MetricFilter "
    "S3::Bucket S3::BucketPolicy SNS::Subscription SNS::Topic SNS::TopicPolicy SSM::Parameter",
    "endpoints": "SageMaker::Endpoint SageMaker::EndpointConfig SageMaker::Model",
    "inference-components": "SageMaker::InferenceComponent",
    "scale-to-zero": "",
    "scaling": "ApplicationAutoScaling::ScalableTarget ApplicationAutoScaling::ScalingPolicy",
    "builds": "CodeBuild::Project",
    "pipeline": "CodeBuild::Project CodePipeline::Pipeline",
    "network": "EC2::FlowLog EC2::RouteTable EC2::SecurityGroup EC2::SecurityGroupIngress EC2::Subnet "
    "EC2::SubnetRouteTableAssociation EC2::VPC EC2::VPCEndpoint",
}
"""Resource types of each feature, without the prefix `AWS::`."""
FEATURES: dict[str, Feature] = {
    name: Feature(name, tuple(f"AWS::{kind}" for kind in types.split())) for name, types in _TYPES.items()
}

SCALED_TO_ZERO: dict[str, bool] = {"eu-west-3": False, "us-east-1": True}
"""Whether SageMaker accepted `ManagedInstanceScaling.MinInstanceCount: 0`, by region. No list of AWS says it;
these are from a real account (stdapi-ai/stdapi.ai, issue 43, 2026-08)."""

MOST_ZONES = 3
"""Maximum number of Availability Zones per network."""


def _check_feature(text: str) -> str:
    if text not in FEATURES:
        raise ValueError(
            f"unknown feature {text!r}; " + suggest(text, FEATURES, f"choose one of {', '.join(FEATURES)}")
        )
    return text


FeatureName = Annotated[
    str, AfterValidator(_check_feature), Field(json_schema_extra={"enum": list(FEATURES)})
]
ConfirmedFeatures = Annotated[tuple[FeatureName, ...], AfterValidator(check_distinct)]


@dataclass(frozen=True)
class MissingFeature:
    """A feature that a region lacks or may lack."""

    feature: Feature
    region: str
    types: tuple[str, ...]
    """Resource types missing in the region's CloudFormation schemas."""
    services: tuple[str, ...]
    """Services of these types without an endpoint in the region, according to the AWS SDK."""

    @property
    def certain(self) -> bool:
        """Whether both lists agree that the region lacks it, or SageMaker refused it there."""
        return bool(self.services) or (not self.types and self.region in SCALED_TO_ZERO)

    @property
    def reason(self) -> str:
        """Why the feature counts as missing."""
        if not self.types:
            how = "refuses" if self.certain else "may refuse"
            return f"SageMaker in {self.region} {how} components with `min_instances: 0`"
        schemas = f"CloudFormation's schemas of {self.region} do not list {' or '.join(self.types)}"
        if not self.certain:
            return schemas
        return f"{schemas}, and the AWS SDK has no {' or '.join(self.services)} endpoint there"


def has_schemas(region: str) -> bool:
    """Check whether a region's CloudFormation schemas are known."""
    return region not in REGIONS_WITHOUT_SCHEMAS


def missing_feature(region: str, name: str) -> MissingFeature | None:
    """Return a feature that a region may lack; None if it has it, or if the schemas are unknown."""
    feature = FEATURES[name]
    if not feature.types:
        return None if SCALED_TO_ZERO.get(region) else MissingFeature(feature, region, (), ())
    types = tuple(sorted(set(feature.types) & set(MISSING_TYPES.get(region, ()))))
    if not types:
        return None
    services = {SERVICES.get(kind.rpartition("::")[0]) for kind in types}
    absent = tuple(service for service in MISSING_SERVICES.get(region, ()) if service in services)
    return MissingFeature(feature, region, types, absent)


def regions_with(name: str, among: Iterable[str]) -> list[str]:
    """Return the regions whose schemas list all types of a feature."""
    return sorted(region for region in among if has_schemas(region) and not missing_feature(region, name))


def unconfirmed(region: str, needed: Collection[str], confirmed: Collection[str]) -> list[MissingFeature]:
    """Return needed features that a region may lack and that the file does not confirm."""
    features = (missing_feature(region, name) for name in needed if name not in confirmed)
    return [missing for missing in features if missing is not None]


def zones_of(region: str) -> int:
    """Return the number of Availability Zones that every account has in a region, at most three."""
    return FEW_ZONES.get(region, MOST_ZONES)


_DIRECTIONS = {
    "central": "c",
    "east": "e",
    "north": "n",
    "northeast": "ne",
    "south": "s",
    "southeast": "se",
    "west": "w",
}


def zone_id_prefix(region: str) -> str:
    """Return what a region's Availability Zone ids begin with: use1-az for us-east-1."""
    area, direction, number = region.split("-")
    return f"{area}{_DIRECTIONS[direction]}{number}-az"

"""The table of all listings."""

from __future__ import annotations

from tritonstack.operations.audit import network, services
from tritonstack.operations.audit.directories import NAMED
from tritonstack.operations.audit.resources import Listing

LISTINGS: tuple[Listing, ...] = (
    *(Listing(directory.service, (directory.type,), directory.find) for directory in NAMED),
    Listing("cloudformation", ("AWS::CloudFormation::Stack",), services.stacks),
    Listing("kms", ("AWS::KMS::Key",), services.keys),
    Listing("ecr", ("AWS::ECR::Repository", "AWS::ECR::Image"), services.repositories),
    Listing("logs", ("AWS::Logs::LogGroup",), services.log_groups),
    Listing("sagemaker", ("AWS::SageMaker::ProcessingJob",), services.processing_jobs),
    Listing(
        "application-autoscaling",
        (
            "AWS::ApplicationAutoScaling::ScalableTarget",
            "AWS::ApplicationAutoScaling::ScalingPolicy",
            "AWS::ApplicationAutoScaling::ScheduledAction",
        ),
        services.scaling,
    ),
    Listing("cloudwatch", ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"), services.alarms),
    Listing("sns", ("AWS::SNS::Topic", "AWS::SNS::Subscription"), services.topics),
    Listing("iam", ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"), services.roles),
    Listing("ssm", ("AWS::SSM::Parameter",), services.parameters),
    Listing("iam", ("AWS::IAM::OIDCProvider",), services.identity_providers),
    Listing("ec2", network.PART_TYPES, network.networks),
    Listing("ec2", network.IMAGE_TYPES, network.machine_images),
)

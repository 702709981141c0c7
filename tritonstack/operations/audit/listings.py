"""The table of all listings."""

from __future__ import annotations

from tritonstack.operations.audit import network, services
from tritonstack.operations.audit.found import Listing

LISTINGS: tuple[Listing, ...] = (
    Listing("cloudformation", ("AWS::CloudFormation::Stack",), services.stacks),
    Listing("s3", ("AWS::S3::Bucket",), services.buckets),
    Listing("kms", ("AWS::KMS::Alias",), services.aliases),
    Listing("kms", ("AWS::KMS::Key",), services.keys),
    Listing("ecr", ("AWS::ECR::Repository", "AWS::ECR::Image"), services.repositories),
    Listing("logs", ("AWS::Logs::LogGroup",), services.log_groups),
    *(
        Listing("sagemaker", (f"AWS::SageMaker::{kind}",), services.of_sagemaker(kind))
        for kind in ("Endpoint", "EndpointConfig", "Model", "InferenceComponent")
    ),
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
    Listing("cloudwatch", ("AWS::CloudWatch::Dashboard",), services.dashboards),
    Listing("sns", ("AWS::SNS::Topic", "AWS::SNS::Subscription"), services.topics),
    Listing("events", ("AWS::Events::Rule",), services.rules),
    Listing("iam", ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"), services.roles),
    Listing("ssm", ("AWS::SSM::Parameter",), services.parameters),
    Listing("codebuild", ("AWS::CodeBuild::Project",), services.build_projects),
    Listing("codepipeline", ("AWS::CodePipeline::Pipeline",), services.pipelines),
    Listing("iam", ("AWS::IAM::OIDCProvider",), services.identity_providers),
    Listing("ec2", network.PART_TYPES, network.networks),
    Listing("ec2", network.IMAGE_TYPES, network.machine_images),
)

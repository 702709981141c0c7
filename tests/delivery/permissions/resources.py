"""Resources of the delivery project's environments, and the policies of their delivery."""

from tests.delivery.delivery_project import DEV, REGION

KEY = f"arn:aws:kms:{REGION}:{DEV}:key/0a1b"


def arn(service, resource, account=DEV, region=REGION):
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def iam_role(name, account=DEV):
    return f"arn:aws:iam::{account}:role/{name}"


DEV_BUCKET = f"arn:aws:s3:::tritonstack-dev-artifacts-{DEV}-{REGION}"
STAGING_BUCKET = f"arn:aws:s3:::tritonstack-staging-artifacts-{DEV}-{REGION}"
PREVIEW_BUCKET = f"arn:aws:s3:::tritonstack-pr-7-artifacts-{DEV}-{REGION}"
CDK = iam_role(f"cdk-hnb659fds-deploy-role-{DEV}-{REGION}")
FILES = iam_role(f"cdk-hnb659fds-file-publishing-role-{DEV}-{REGION}")
PREVIEW_ASSETS = f"arn:aws:s3:::cdk-preview-assets-{DEV}-{REGION}"
PREVIEW_FILES = FILES.replace("hnb659fds", "preview")
LOOKUP = iam_role(f"cdk-hnb659fds-lookup-role-{DEV}-{REGION}")
EXECUTION = iam_role(f"cdk-hnb659fds-cfn-exec-role-{DEV}-{REGION}")
PREVIEW_EXECUTION = iam_role("tritonstack-delivery-dev-preview-execution")
SCALING_ROLE = iam_role(
    "aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)


def executing(template, environment):
    """Return the statements of the policies for `cdk bootstrap`."""
    names = [f"tritonstack-delivery-{environment}-execution{part}" for part in ("", "-security")]
    policies = {
        item["Properties"].get("ManagedPolicyName"): item["Properties"].get("PolicyDocument")
        for item in template["Resources"].values()
    }
    return [statement for name in names for statement in policies[name]["Statement"]]


PREVIEWS_KEY = {"aws:ResourceTag/project": "tritonstack", "aws:ResourceTag/environment": "pr-7"}
DEVS_KEY = {**PREVIEWS_KEY, "aws:ResourceTag/environment": "dev"}

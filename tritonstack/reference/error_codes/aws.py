"""TS5xx: AWS, deployments, and endpoints."""

from __future__ import annotations

from collections.abc import Mapping

from tritonstack.reference.error_codes.kinds import Kind

AWS: Mapping[str, Kind] = {
    "TS501": Kind(
        "No access to the AWS account",
        "There are no valid credentials for the account, they may not assume its role, or they belong "
        "to another account than the environment's. Log in, for example with `aws sso login`, select a "
        "profile with `AWS_PROFILE`, or correct `account` in the environment's file.",
    ),
    "TS503": Kind(
        "AWS rejected a call",
        "An AWS API returned an error that tritonstack does not handle, or the IAM policies do not "
        "allow the call; then the help names the action to allow. The message is AWS's own. Rerun with "
        "`--debug` to see the call.",
    ),
    "TS504": Kind(
        "Account not bootstrapped",
        "The CDK has not prepared the account and region yet. Run `cdk bootstrap` once, or deploy with "
        "`--bootstrap`.",
    ),
    "TS505": Kind(
        "CDK command failed",
        "The CDK CLI ended with an error. The end of its output is in the message, with "
        "CloudFormation's reason. Fix it, and rerun; the deploy resumes.",
    ),
    "TS506": Kind(
        "Change not possible by an update",
        "SageMaker or CloudFormation cannot make this change to deployed resources. The message names "
        "the steps that can, such as a second endpoint.",
    ),
    "TS507": Kind(
        "Deployment was rolled back",
        "The new version was deployed, but an alarm or a failed health check rolled it back. The "
        "previous version serves. Read the alarms and the log, fix the cause, and deploy again.",
    ),
    "TS508": Kind(
        "Deletion failed",
        "A stack, bucket, or running build could not be deleted. Remove what keeps it, and rerun the "
        "command; it resumes.",
    ),
    "TS509": Kind(
        "Environment is protected",
        "The environment or its data must not be deleted. Set `protected: false`, deploy that, then "
        "destroy; environments with data also ask for their name.",
    ),
    "TS510": Kind(
        "Environment instance changed its lifetime",
        "An instance of a template has expired, was extended meanwhile, or requests a longer lifetime "
        "than allowed. Choose another `--ttl`, or deploy it again.",
    ),
    "TS511": Kind(
        "Commit not found, or files changed",
        "The commit does not exist in this clone, or files changed during the command. Fetch the "
        "commit, or rerun the command.",
    ),
    "TS513": Kind(
        "Result was not recorded",
        "The verdict of `verify`, or a load test, could not be written to the artifact bucket, or the "
        "endpoint does not serve the artifact of the lock throughout. Deploy first, use credentials "
        "that may write there, or omit the recording.",
    ),
    "TS514": Kind(
        "Not deployed",
        "The environment or the instance is not deployed, so the command has nothing to work on. Deploy "
        "it first.",
    ),
    "TS515": Kind(
        "Invalid options of a construct",
        "A stack uses the constructs with options that contradict each other or exceed a limit of IAM, "
        "or a stack needs an account or region at synthesis. Correct the code that creates the "
        "construct; shorten names, or split the environment.",
    ),
    "TS517": Kind(
        "Answers could not be checked",
        "A test request failed, or its answer has another shape than the example. Read the log group of "
        "the endpoint.",
    ),
    "TS540": Kind(
        "Request cannot be encoded",
        "The client cannot write an input as a Triton tensor; nothing was sent. Pass NumPy arrays of a "
        "supported type, or lists of strings.",
    ),
    "TS541": Kind(
        "Malformed reply",
        "The endpoint returned data that is not in Triton's format. Check that it runs a Triton "
        "container and that nothing in between changes its replies.",
    ),
    "TS542": Kind(
        "Request rejected",
        "SageMaker or Triton rejected the request. Compare it with the limits of InvokeEndpoint, and "
        "names, shapes, and types of the inputs with the model's `config.pbtxt`. Multi-model endpoints "
        "use this status for most errors.",
    ),
    "TS543": Kind(
        "Endpoint or model not found",
        "There is no such endpoint in this account and region, it is not in service, or it has no model "
        "of the requested name. Check the name, the region, and the credentials. `tritonstack targets` "
        "lists the models of a multi-model endpoint.",
    ),
    "TS544": Kind(
        "Access to the endpoint denied",
        "The credentials are missing, wrong, or expired, or do not allow `sagemaker:InvokeEndpoint`. "
        "Streamed responses also need `sagemaker:InvokeEndpointWithResponseStream`.",
    ),
    "TS546": Kind(
        "Model failed",
        "The model or its server failed with status 5xx or while it responded, sent no response, or ran "
        "out of memory. Compare the inputs with the model's configuration, read the log group of the "
        "endpoint, send smaller batches, or choose a larger instance.",
    ),
    "TS548": Kind(
        "Request timed out",
        "The model did not answer within SageMaker's 60 seconds, or the client stopped waiting. Send "
        "smaller batches, or use an asynchronous endpoint.",
    ),
    "TS549": Kind(
        "Endpoint is not available now",
        "The model is still loading, the service cannot take the request now, there are too many "
        "requests, or the connection failed. Wait a moment, and send it again; check the region, the "
        "network, and `AWS_ENDPOINT_URL`.",
    ),
    "TS552": Kind(
        "Setting not supported by the light transport",
        "The light transport has no proxies, no retry mode `adaptive`, no endpoint URLs with a query, "
        "and no signatures other than version 4. Use boto3's transport, or change the setting.",
    ),
}

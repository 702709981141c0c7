"""Map AWS operations to their IAM actions; they differ for S3 and a few other services."""

_S3 = {
    "CompleteMultipartUpload": "PutObject",
    "CopyObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "DeleteObjects": "DeleteObject",
    # IAM requires ListBucket without a prefix: permission for one prefix only is not enough.
    "HeadBucket": "ListBucket of any prefix",
    "HeadObject": "GetObject",
    "ListBuckets": "ListAllMyBuckets",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "ListObjectVersions": "ListBucketVersions",
    "ListObjectsV2": "ListBucket",
    "ListParts": "ListMultipartUploadParts",
    "UploadPart": "PutObject",
    "UploadPartCopy": "PutObject",
}
_PREFIXES = {
    "resourcegroupstaggingapi": "tag",
    "service-quotas": "servicequotas",
    "sagemaker-runtime": "sagemaker",
}
FREE = {("sts", "GetCallerIdentity")}
"""Needs no permission."""


def action_of(service: str, operation: str) -> str:
    """Return the IAM action of an API call."""
    name = _S3.get(operation, operation) if service == "s3" else operation
    return f"{_PREFIXES.get(service, service)}:{name}"

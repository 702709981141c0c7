"""Print or start a SageMaker training job that runs train.py for one category.

The job runs in script mode in SageMaker's PyTorch image. It writes model.pt and answers.npz to
s3://BUCKET/training/JOB/output/model/, uncompressed, so that this prefix can be the source of a model.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import boto3

from train import CATEGORIES, make_interactions

HERE = Path(__file__).parent
IMAGE = "763104351884.dkr.ecr.{region}.amazonaws.com/pytorch-training:2.6.0-{build}-ubuntu22.04-sagemaker"
"""TorchScript of PyTorch 2.6 runs in all Triton releases of 2025 and later."""


def request(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return the parameters of CreateTrainingJob."""
    prefix = f"s3://{options.bucket}/training/{name}"
    build = "gpu-py312-cu126" if options.instance_type.startswith(("ml.g", "ml.p")) else "cpu-py312"
    hyperparameters = {
        "sagemaker_program": "train.py",
        "sagemaker_submit_directory": f"{prefix}/code/sourcedir.tar.gz",
        "category": options.category,
        "epochs": options.epochs,
    }
    return {
        "TrainingJobName": name,
        "RoleArn": options.role,
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE.format(region=options.region, build=build),
            "TrainingInputMode": "File",
        },
        # Script mode decodes each value as JSON and passes the others as arguments: --category food.
        "HyperParameters": {key: json.dumps(value) for key, value in hyperparameters.items()},
        "InputDataConfig": [
            {
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"{prefix}/data/"}},
            }
        ],
        "OutputDataConfig": {"S3OutputPath": f"s3://{options.bucket}/training/", "CompressionType": "NONE"},
        "ResourceConfig": {
            "InstanceType": options.instance_type,
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }


def source_archive() -> bytes:
    """Return sourcedir.tar.gz with train.py."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(HERE / "train.py", arcname="train.py")
    return buffer.getvalue()


def interactions(category: str) -> bytes:
    """Return interactions.csv. Write your own purchases here, in order of time."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows([("user", "item"), *make_interactions(category)])
    return text.getvalue().encode()


def main() -> int:
    """Print the request; with --start, upload its inputs and send it."""
    parser = argparse.ArgumentParser(description="Train one category in a SageMaker training job.")
    parser.add_argument("--category", choices=sorted(CATEGORIES), required=True)
    parser.add_argument("--role", required=True, help="ARN of the role that SageMaker assumes")
    parser.add_argument("--bucket", required=True, help="bucket of the job's inputs and outputs")
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--instance-type", default="ml.m5.xlarge")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--start", action="store_true", help="upload and start; otherwise only print")
    options = parser.parse_args()
    job = request(options, f"ncf-{options.category}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    print(json.dumps(job, indent=2))
    if options.start:
        s3 = boto3.client("s3", region_name=options.region)
        folder = f"training/{job['TrainingJobName']}"
        s3.put_object(Bucket=options.bucket, Key=f"{folder}/code/sourcedir.tar.gz", Body=source_archive())
        data = interactions(options.category)
        s3.put_object(Bucket=options.bucket, Key=f"{folder}/data/interactions.csv", Body=data)
        started = boto3.client("sagemaker", region_name=options.region).create_training_job(**job)
        print(f"started {started['TrainingJobArn']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

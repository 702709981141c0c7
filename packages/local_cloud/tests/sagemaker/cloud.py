"""SageMaker in a cloud of its own, with fake Triton servers unless a test asks for real ones."""

import itertools
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from packages.local_cloud.tests.conftest import REGION, SHARED, Account, start_cloud
from tritonstack_local.sagemaker import SageMakerApp, create_app
from tritonstack_local.sagemaker.dependencies import ServerSlots
from tritonstack_local.settings import TimeScale

IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:24.09-py3"
BUCKET = "artifacts"

_BUSY = ("Creating", "Updating", "RollingBack", "SystemUpdating", "Deleting")
_accounts = itertools.count(100000000000)


def role_of(client):
    """A role of the account that the client signs as."""
    account = client._request_signer._credentials.access_key[-12:]
    return f"arn:aws:iam::{account}:role/endpoint"


@dataclass
class Cloud:
    """A running cloud, and an account in it."""

    url: str
    app: object
    account: str

    def client(self, service, *, account=None, region=REGION):
        return Account(self.url, account or self.account, region).client(service)

    @property
    def sagemaker(self):
        return self.client("sagemaker")

    @property
    def runtime(self):
        return self.client("sagemaker-runtime")

    def upload(self, key, content):
        s3 = self.client("s3")
        if not s3.list_buckets()["Buckets"]:
            s3.create_bucket(Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return f"s3://{self.bucket}/{key}"

    @property
    def bucket(self):
        return f"{BUCKET}-{self.account}"

    def model(self, name, *, url=None, environment=None, **fields):
        container = {"Image": IMAGE, "Environment": environment or {}}
        if url is not None:
            container["ModelDataUrl"] = url
        return self.sagemaker.create_model(
            ModelName=name, ExecutionRoleArn=role_of(self.sagemaker), PrimaryContainer=container, **fields
        )

    def config(self, name, *, model=None, **variant):
        return self.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**a_variant(model or name), **variant}]
        )

    def described(self, endpoint="e"):
        return self.sagemaker.describe_endpoint(EndpointName=endpoint)

    def create(self, endpoint="e", *, url=None, environment=None, settled=True, **variant):
        """Create an endpoint with a model and a configuration of its name; its server says its name."""
        self.model(endpoint, url=url, environment={"FAKE_ANSWER": endpoint} | (environment or {}))
        self.config(endpoint, **variant)
        self.sagemaker.create_endpoint(EndpointName=endpoint, EndpointConfigName=endpoint)
        return self.settled(endpoint) if settled else None

    def update(self, config, endpoint="e", **options):
        self.sagemaker.update_endpoint(EndpointName=endpoint, EndpointConfigName=config, **options)

    def delete(self, endpoint="e"):
        self.sagemaker.delete_endpoint(EndpointName=endpoint)
        self.gone(endpoint)

    def ask(self, body=b"ask", *, endpoint="e", **fields):
        answer = self.runtime.invoke_endpoint(EndpointName=endpoint, Body=body, **fields)
        return answer["Body"].read().decode()

    def settled(self, endpoint="e", *, timeout_s=60):
        """Wait until an endpoint's operation has ended."""
        eventually(lambda: self.described(endpoint)["EndpointStatus"] not in _BUSY, timeout_s=timeout_s)
        return self.described(endpoint)

    def gone(self, endpoint="e", *, timeout_s=60):
        """Wait until an endpoint is deleted."""
        eventually(lambda: endpoint not in self.endpoint_names(), timeout_s=timeout_s)

    def metric(self, name, *statistics, namespace="AWS/SageMaker", minutes=60):
        """Return statistics of a metric of the variant of the endpoint `e`, each 0 without values."""
        now, span = datetime.now(UTC), timedelta(minutes=minutes)
        variant = {"EndpointName": "e", "VariantName": "AllTraffic"}
        measured = {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in variant.items()],
        }
        queries = [
            {"Id": f"m{number}", "MetricStat": {"Metric": measured, "Period": 7200, "Stat": statistic}}
            for number, statistic in enumerate(statistics)
        ]
        results = self.client("cloudwatch").get_metric_data(
            MetricDataQueries=queries, StartTime=now - span, EndTime=now + timedelta(minutes=1)
        )["MetricDataResults"]
        return tuple(sum(result["Values"]) for result in results)

    def endpoint_names(self):
        return [item["EndpointName"] for item in self.sagemaker.list_endpoints()["Endpoints"]]


def eventually(condition, *, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def a_variant(model):
    return {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InstanceType": "ml.g5.xlarge",
        "InitialInstanceCount": 1,
    }


# Minutes are short, and the machine holds every instance that a test requests.
FAST = TimeScale(minute_s=0.002)
ROOMY = ServerSlots(cores=64, instance_bytes=1)


@contextmanager
def run_cloud(folder, start_server=None, *, account=None, server_home=None, **changes):
    """Run a cloud with fake servers, or with those of an installation; `changes` are to its dependencies."""

    def make_sagemaker(*, dependencies, server_home):
        dependencies = replace(dependencies, **{"time_scale": FAST, "machine": ROOMY} | changes)
        if start_server is None:
            return create_app(dependencies=dependencies, server_home=server_home)
        return SageMakerApp(dependencies=dependencies, start_server=start_server)

    SHARED.end()
    local = start_cloud(folder, make_sagemaker, server_home=server_home or folder)
    try:
        yield Cloud(local.endpoint_url, local._sagemaker, account or str(next(_accounts)))
    finally:
        local.close()


def short_id(parameter):
    """Return a short test id: archives are unreadable and differ between runs."""
    return "bytes" if isinstance(parameter, bytes) else None


def tree(folder: Path):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))

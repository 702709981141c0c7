"""The life cycle of an endpoint through boto3, with a strict fake Triton."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError, WaiterError

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, REGION, eventually, run_cloud, short_id, tree
from packages.local_cloud.tests.sagemaker.fakes import tarball
from tritonstack_local.sagemaker.hosting.supply import InstanceSupply
from tritonstack_local.sagemaker.servers.logs import LogShipper


def ready_to_create(cloud, name="e", *, url=None, **environment):
    cloud.model(name, url=url, environment={"FAKE_ANSWER": name, **environment})
    cloud.config(name)


def created(cloud, name="e", *, url=None, **environment):
    return cloud.create(name, url=url, environment=environment)


def asked(cloud, name="e"):
    return cloud.ask(endpoint=name)


def test_an_endpoint_starts_with_the_models_settings(cloud, tritons):
    url = cloud.upload("m.tar.gz", tarball({"m/1/model.onnx": b"x"}))
    ready_to_create(cloud, url=url)
    made = cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    assert made["EndpointArn"] == f"arn:aws:sagemaker:{REGION}:{cloud.account}:endpoint/e"
    cloud.sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="e", WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )
    described = cloud.described("e")
    assert described["EndpointConfigName"] == "e"
    assert described["ProductionVariants"] == [
        {
            "VariantName": "AllTraffic",
            "DeployedImages": [{"SpecifiedImage": IMAGE}],
            "CurrentWeight": 1.0,
            "DesiredWeight": 1.0,
            "CurrentInstanceCount": 1,
            "DesiredInstanceCount": 1,
        }
    ]
    assert tritons.started[0].startup_timeout_s == 480
    order = tritons.started[0].order
    assert order.environment == {"FAKE_ANSWER": "e"}
    assert tree(order.model_root) == ["m", "m/1", "m/1/model.onnx"]
    assert asked(cloud) == "e"
    with pytest.raises(ClientError, match="already existing endpoint"):
        cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")


def test_a_containers_user_can_read_its_model(cloud, tritons):
    """The umask is the local cloud's; containers run as their image's user."""
    url = cloud.upload("m.tar.gz", tarball({"m/1/model.onnx": b"x"}))
    before = os.umask(0o077)
    try:
        created(cloud, url=url)
    finally:
        os.umask(before)
    root = tritons.started[0].order.model_root
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


def test_an_endpoint_is_creating_until_its_server_is_ready(cloud):
    ready_to_create(cloud, FAKE_STARTS="never")
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    described = cloud.described("e")
    assert described["EndpointStatus"] == "Creating"
    assert "ProductionVariants" not in described
    with pytest.raises(ClientError, match=r"account \d+ not found"):
        asked(cloud)
    with pytest.raises(ClientError, match="in-progress endpoint"):
        cloud.update("e", "e")


def test_a_creating_endpoint_can_be_deleted(cloud, tritons):
    ready_to_create(cloud, FAKE_STARTS="never")
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    eventually(lambda: tritons.started)
    cloud.sagemaker.delete_endpoint(EndpointName="e")
    cloud.gone("e", timeout_s=10)
    assert not any(server.running for server in tritons.started)
    created(cloud, "f")  # no leftover blocks the next one
    assert asked(cloud, "f") == "f"


def test_a_variants_startup_timeout_applies(cloud, tritons):
    cloud.model("e")
    cloud.config("e", ContainerStartupHealthCheckTimeoutInSeconds=90)
    cloud.sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="e")
    cloud.settled("e")
    assert tritons.started[0].startup_timeout_s == 90


def test_leftovers_of_a_killed_cloud_are_removed(tmp_path):
    folder = tmp_path / "endpoints"
    (folder / "1/eu-west-1/e/i-1").mkdir(parents=True)

    with run_cloud(tmp_path):
        assert not folder.exists()


def test_endpoint_without_a_server_fails_with_a_remedy(tmp_path):
    with run_cloud(tmp_path) as cloud:
        described = created(cloud)
    assert described["EndpointStatus"] == "Failed"
    assert "Triton server" in described["FailureReason"]


def test_a_server_that_does_not_start_fails_the_endpoint_with_its_message(cloud, tritons, tmp_path):
    described = created(cloud, FAKE_STARTS="no")
    assert described["EndpointStatus"] == "Failed"
    assert "variant AllTraffic" in described["FailureReason"]
    assert "no such tensor" in described["FailureReason"]
    assert not tritons.started[0].running
    with pytest.raises(WaiterError):
        cloud.sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="e")
    with pytest.raises(ClientError, match="failed endpoint"):
        cloud.update("e", "e")
    cloud.delete("e")
    assert "e" not in [part for path in tree(tmp_path) for part in path.split("/")]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "Failed to download model data for container"),
        (b"no archive", "Failed to extract model data archive"),
        (tarball({"../x": ""}), "Cannot unpack the model data"),
    ],
    ids=short_id,
)
def test_an_unavailable_artifact_fails_the_endpoint(cloud, tritons, content, words):
    url = f"s3://{cloud.bucket}/gone.tar.gz" if content is None else cloud.upload("m.tar.gz", content)
    described = created(cloud, url=url)
    assert described["EndpointStatus"] == "Failed"
    assert words in described["FailureReason"]
    assert url in described["FailureReason"]
    assert tritons.started == []


def test_requests_in_flight_during_an_update_finish_on_the_old_server(cloud, tritons):
    created(cloud, "old")
    ready_to_create(cloud, "new")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(cloud.runtime.invoke_endpoint, EndpointName="old", Body=b"hold")
        assert tritons.started[0].holding.wait(10)
        cloud.update("new", "old")
        eventually(lambda: asked(cloud, "old") == "new")
        described = cloud.described("old")
        assert described["EndpointStatus"] == "Updating"
        assert described["PendingDeploymentSummary"]["EndpointConfigName"] == "new"
        assert tritons.started[0].running
        tritons.released.set()
        assert held.result()["Body"].read() == b"held"
    assert "PendingDeploymentSummary" not in cloud.settled("old")
    assert not tritons.started[0].running


def test_a_deleted_endpoint_finishes_requests_and_disappears(cloud, tritons, tmp_path):
    created(cloud)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(cloud.runtime.invoke_endpoint, EndpointName="e", Body=b"hold")
        assert tritons.started[0].holding.wait(10)
        cloud.sagemaker.delete_endpoint(EndpointName="e")
        assert cloud.described("e")["EndpointStatus"] == "Deleting"
        with pytest.raises(ClientError, match="in-progress endpoint"):
            cloud.sagemaker.delete_endpoint(EndpointName="e")
        tritons.released.set()
        assert held.result()["Body"].read() == b"held"
    cloud.gone("e")
    assert not tritons.started[0].running
    assert [item["type"] for item in cloud.app.inventory()] == ["model", "endpoint-config"]
    assert not any("model" in path or "log" in path for path in tree(tmp_path / "endpoints"))


def numbers(cloud):
    variant = cloud.settled("e")["ProductionVariants"][0]
    return variant["DesiredInstanceCount"], variant["CurrentInstanceCount"], variant["CurrentWeight"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (1, 1, 1.0)),
        ({"RetainAllVariantProperties": True}, (3, 3, 0.0)),
        (
            {
                "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredWeight"}],
            },
            (3, 3, 1.0),
        ),
        (
            {
                "RetainAllVariantProperties": True,
                "ExcludeRetainedVariantProperties": [{"VariantPropertyType": "DesiredInstanceCount"}],
            },
            (1, 1, 0.0),
        ),
    ],
)
def test_an_update_retains_variant_properties(cloud, options, expected):
    created(cloud)
    cloud.sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[
            {"VariantName": "AllTraffic", "DesiredInstanceCount": 3, "DesiredWeight": 0}
        ],
    )
    assert numbers(cloud) == (3, 3, 0.0)
    cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="e", **options)
    assert numbers(cloud) == expected


def test_an_unknown_variant_cannot_be_scaled(cloud):
    created(cloud)
    with pytest.raises(ClientError, match='"other"'):
        cloud.sagemaker.update_endpoint_weights_and_capacities(
            EndpointName="e", DesiredWeightsAndCapacities=[{"VariantName": "other"}]
        )


def test_a_deployment_configuration_is_shown_and_retained(cloud):
    routing = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}
    created(cloud)
    for options, expected in (
        ({"DeploymentConfig": policy}, policy),
        ({"RetainDeploymentConfig": True}, policy),
        ({}, None),
    ):
        cloud.sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="e", **options)
        assert cloud.settled("e").get("LastDeploymentConfig") == expected


def test_unexpected_errors_leave_no_endpoint_in_progress(cloud, monkeypatch):
    created(cloud)
    ready_to_create(cloud, "other")

    def breaks(*_arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(InstanceSupply, "grow", breaks)
    cloud.update("other", "e")
    cloud.sagemaker.create_endpoint(EndpointName="other", EndpointConfigName="other")
    updated, new = cloud.settled("e", timeout_s=10), cloud.settled("other", timeout_s=10)
    monkeypatch.undo()
    assert (updated["EndpointStatus"], updated["EndpointConfigName"]) == ("InService", "e")
    assert new["EndpointStatus"] == "Failed"
    assert updated["FailureReason"] == new["FailureReason"]
    assert "new thread" in new["FailureReason"]
    assert asked(cloud) == "e"
    cloud.update("other", "e")
    assert cloud.settled("e")["EndpointConfigName"] == "other"
    cloud.delete("other")


def test_logs_are_shipped_to_the_endpoints_log_group(cloud):
    created(cloud)
    cloud.delete("e")
    logs, group = cloud.client("logs"), "/aws/sagemaker/Endpoints/e"
    stream = logs.describe_log_streams(logGroupName=group)["logStreams"][0]["logStreamName"]
    assert stream.startswith("AllTraffic/i-")
    events = logs.get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)["events"]
    for event, part in zip(events, (IMAGE, "no such tensor", "says hello"), strict=True):
        assert part in event["message"]


def test_long_and_partial_lines_are_shipped_completely(cloud, tmp_path):
    log, logs, group = tmp_path / "log", cloud.client("logs"), "/aws/sagemaker/Endpoints/lines"
    shipper = LogShipper(client=logs, group=group, stream="s", preface=["begins"])
    with log.open("w") as file:
        file.write("x" * 200_000 + "\nhalf of")
        file.flush()
        shipper.follow(log)

        def messages():
            try:
                told = logs.get_log_events(logGroupName=group, logStreamName="s", startFromHead=True)
            except logs.exceptions.ResourceNotFoundException:
                return []  # the shipper creates both the group and the stream
            return [event["message"] for event in told["events"]]

        eventually(lambda: len(messages()) >= 2)
        file.write(" a line\nno end")
    shipper.stop()
    begins, *long, line, end = messages()
    assert "".join(long) == "x" * 200_000
    assert (begins, line, end) == ("begins", "half of a line", "no end")


def messages(logs, group):
    pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group)
    return [event["message"] for page in pages for event in page["events"]]


@pytest.mark.parametrize("group_is_deleted", [False, True])
def test_a_servers_log_uses_little_disk_while_it_grows(cloud, tmp_path, group_is_deleted):
    """Each line is sent once, the writer is not disturbed, and the end stays."""
    logs, group = cloud.client("logs"), "/aws/sagemaker/Endpoints/growing"
    file, count = tmp_path / "triton.log", 1000
    shipper = LogShipper(client=logs, group=group, stream="s", preface=["begins"])
    eventually(
        lambda: logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"] and messages(logs, group)
    )
    if group_is_deleted:
        logs.delete_log_group(logGroupName=group)
    with file.open("wb", buffering=0) as output:
        shipper.follow(file)
        for number in range(count):
            output.write(b"%d%b\n" % (number, b"x" * 12_000))
    shipper.stop()
    assert file.stat().st_blocks * 512 < (9 << 20) < file.stat().st_size
    assert file.read_bytes().endswith(b"x\n")
    if not group_is_deleted:
        assert [int(line.rstrip("x")) for line in messages(logs, group)[1:]] == list(range(count))


def test_only_the_log_of_the_last_container_is_kept(cloud, tmp_path):
    logs, group = cloud.client("logs"), "/aws/sagemaker/Endpoints/restarted"
    files = [tmp_path / str(number) for number in range(4)]
    shipper = LogShipper(client=logs, group=group, stream="s", preface=["begins"])
    for file in files:
        file.write_text(f"{file.name}\n")
        shipper.follow(file)
    shipper.stop()
    assert messages(logs, group) == ["begins", "0", "1", "2", "3"]
    assert [file.exists() for file in files] == [False, False, False, True]


def test_an_existing_log_group_keeps_its_retention(cloud):
    logs, group = cloud.client("logs"), "/aws/sagemaker/Endpoints/e"
    logs.create_log_group(logGroupName=group)
    logs.put_retention_policy(logGroupName=group, retentionInDays=7)
    created(cloud)
    cloud.delete("e")
    (found,) = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    assert found["retentionInDays"] == 7
    assert logs.describe_log_streams(logGroupName=group)["logStreams"]


def test_closing_ends_running_and_starting_endpoints(tmp_path, tritons):
    with run_cloud(tmp_path, tritons) as cloud:
        created(cloud, "serves")
        ready_to_create(cloud, "starts", FAKE_STARTS="never")
        cloud.sagemaker.create_endpoint(EndpointName="starts", EndpointConfigName="starts")
        eventually(lambda: len(tritons.started) == 2)
    assert [server.running for server in tritons.started] == [False, False]

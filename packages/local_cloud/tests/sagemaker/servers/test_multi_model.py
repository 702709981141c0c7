"""Multi-model endpoints through boto3, with a strict fake Triton."""

import gzip
import os
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from botocore.exceptions import ClientError

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, eventually, role_of, run_cloud, tree
from packages.local_cloud.tests.sagemaker.servers.fake_triton import MultiModelTriton, archive

SHELF = "endpoints/e/"
TOO_LARGE = "CUDA out of memory"


@pytest.fixture
def tritons():
    started = []
    yield started
    assert [triton.broken for triton in started] == [[]] * len(started)


@pytest.fixture
def loaded_models():
    """The maximum number of loaded models per instance."""
    return


@pytest.fixture
def cloud(tmp_path, tritons, loaded_models):
    def start(order):
        tritons.append(MultiModelTriton(order))
        return tritons[-1]

    with run_cloud(tmp_path, start, loaded_models=loaded_models) as running:
        yield running


@pytest.fixture
def endpoint(cloud):
    return created(cloud)


def created(cloud, *, name="e", shelf=SHELF, **multi_model_config):
    url = cloud.upload(f"{SHELF}a.tar.gz", archive("answer a")).removesuffix(f"{SHELF}a.tar.gz") + shelf
    cloud.upload(f"{SHELF}b/1/model.tar.gz", archive("answer b"))
    container = {"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": url, "Environment": {"A": "1"}}
    if multi_model_config:
        container["MultiModelConfig"] = multi_model_config
    cloud.sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=role_of(cloud.sagemaker), PrimaryContainer=container
    )
    cloud.config(name)
    cloud.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert cloud.settled(name)["EndpointStatus"] == "InService"
    return cloud


def asked(cloud, target, body=b"ask"):
    return cloud.ask(body, TargetModel=target)


def claiming(size):
    """A truncated archive of a file with this declared size."""
    header = tarfile.TarInfo("model/weights")
    header.size = size
    return gzip.compress(header.tobuf() + bytes(10_000), mtime=0)


def failure(cloud, **fields):
    with pytest.raises(ClientError) as caught:
        cloud.runtime.invoke_endpoint(**{"EndpointName": "e", "Body": b"ask", **fields})
    return caught.value.response


def test_models_are_loaded_on_first_request(endpoint, tritons):
    (triton,) = tritons
    assert triton.loads == []
    assert asked(endpoint, "a.tar.gz") == "a"
    assert asked(endpoint, "b/1/model.tar.gz") == "b"
    assert [asked(endpoint, "a.tar.gz") for _ in range(3)] == ["a"] * 3
    assert triton.loads == ["a.tar.gz", "b/1/model.tar.gz"]
    assert triton.order.environment == {"A": "1", "SAGEMAKER_MULTI_MODEL": "true"}
    described = endpoint.sagemaker.describe_model(ModelName="e")
    assert described["PrimaryContainer"]["Mode"] == "MultiModel"


@pytest.mark.parametrize("shelf", ["endpoints/e/", "endpoints/e"])
def test_a_target_is_below_the_models_prefix(cloud, shelf):
    created(cloud, shelf=shelf)
    assert asked(cloud, "a.tar.gz") == "a"


def test_a_missing_object_is_rejected_and_found_once_uploaded(endpoint, tritons):
    error = failure(endpoint, TargetModel="c.tar.gz")["Error"]
    assert error["Code"] == "ValidationError"
    assert f"(bucket: {endpoint.bucket}, key: {SHELF}c.tar.gz)" in error["Message"]
    assert tritons[0].loads == []
    endpoint.upload(f"{SHELF}c.tar.gz", archive("answer c"))
    assert asked(endpoint, "c.tar.gz") == "c"


def test_a_failed_load_returns_the_containers_message_and_is_retried(endpoint, tritons):
    endpoint.upload(f"{SHELF}c.tar.gz", archive("reject 400 no such tensor"))
    response = failure(endpoint, TargetModel="c.tar.gz")
    assert response["Error"]["Code"] == "ModelError"
    assert (response["OriginalStatusCode"], response["OriginalMessage"]) == (400, "no such tensor")
    assert "client error (400)" in response["Error"]["Message"]
    failure(endpoint, TargetModel="c.tar.gz")
    endpoint.upload(f"{SHELF}c.tar.gz", archive("answer mended"))
    assert asked(endpoint, "c.tar.gz") == "mended"
    assert tritons[0].loads == ["c.tar.gz"] * 3


def test_an_unsafe_target_is_rejected(endpoint, tritons):
    targets = ["a b", "$(id).tar.gz", "a;b", "../a.tar.gz", "x/../a.tar.gz", "/a.tar.gz", "./a", "a//b", "a/"]
    for target in targets:
        error = failure(endpoint, TargetModel=target)["Error"]
        assert error["Code"] == "ValidationError"
        assert f"'{target}' at 'targetModel'" in error["Message"]
    assert tritons[0].loads == []


def test_a_request_without_a_target_is_rejected(endpoint):
    error = failure(endpoint)["Error"]
    assert error["Code"] == "ValidationError"
    assert "target model header" in error["Message"]


def test_responses_are_not_streamed(endpoint):
    """InvokeEndpointWithResponseStream has no TargetModel."""
    with pytest.raises(ClientError, match="multi-model endpoint"):
        endpoint.runtime.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"ask")


def test_a_server_that_dies_during_a_load_is_restarted(endpoint, tritons):
    endpoint.upload(f"{SHELF}c.tar.gz", archive("die"))
    assert asked(endpoint, "a.tar.gz") == "a"
    assert failure(endpoint, TargetModel="c.tar.gz")["Error"]["Code"] == "InternalFailure"
    eventually(lambda: len(tritons) == 2 and _answers(endpoint))
    assert tritons[1].loads == ["a.tar.gz"]


def test_a_restart_frees_the_disk_of_earlier_models(endpoint, tritons, tmp_path):
    endpoint.upload(f"{SHELF}c.tar.gz", archive("die"))
    for _ in range(2):
        assert asked(endpoint, "a.tar.gz") == "a"
        assert failure(endpoint, TargetModel="c.tar.gz")["Error"]["Code"]
    assert asked(endpoint, "a.tar.gz") == "a"
    assert len(tritons) == 3
    assert len([path for path in tmp_path.rglob("model*") if path.parent.name.startswith("i-")]) == 1


def test_a_containers_user_can_read_its_models_after_a_restart(endpoint, tritons):
    """The umask is the local cloud's; containers run as their image's user."""
    endpoint.upload(f"{SHELF}c.tar.gz", archive("die"))
    before = os.umask(0o077)
    try:
        assert failure(endpoint, TargetModel="c.tar.gz")["Error"]["Code"]
        assert asked(endpoint, "a.tar.gz") == "a"
    finally:
        os.umask(before)
    root = tritons[1].order.model_root
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("loaded_models", [1])
def test_requests_waiting_for_memory_survive_a_server_restart(endpoint, tritons):
    (first,) = tritons
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(asked, endpoint, "a.tar.gz", b"hold")
        assert first.holding.wait(10)
        waiting = pool.submit(asked, endpoint, "b/1/model.tar.gz")
        while not endpoint.app._hosting.live[0].container.models.holds("b/1/model.tar.gz"):
            time.sleep(0.01)
        first.stop()
        assert waiting.result() == "b"
        first.released.set()
        held.exception()
    assert len(tritons) == 2


def test_waiting_for_an_instance_shortens_the_wait_for_the_model(endpoint, tritons):
    endpoint.app.runtime._timeout_s = 60.0
    asked_to_wait = []
    instance = endpoint.app._hosting.live[0]
    models = instance.container.models
    await_loaded = models._await_loaded
    models._await_loaded = lambda model, timeout_s: (
        asked_to_wait.append(timeout_s) or await_loaded(model, timeout_s)
    )
    instance.doubt()  # it gets no requests until its ping succeeds
    assert asked(endpoint, "a.tar.gz") == "a"
    (timeout_s,) = asked_to_wait
    assert timeout_s < 60.0


def _answers(cloud):
    try:
        return asked(cloud, "a.tar.gz") == "a"
    except ClientError:
        return False


def test_an_update_starts_without_models_and_fails_no_request(endpoint, tritons):
    assert asked(endpoint, "a.tar.gz") == "a"
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(asked, endpoint, "a.tar.gz", b"hold")
        assert tritons[0].holding.wait(10)
        endpoint.update("e")
        eventually(
            lambda: asked(endpoint, "b/1/model.tar.gz") == "b" and len(tritons) == 2 and tritons[1].loads
        )
        tritons[0].released.set()
        assert held.result() == "a"
    endpoint.settled("e")
    assert not tritons[0].running
    assert asked(endpoint, "a.tar.gz") == "a"
    assert tritons[1].loads == ["b/1/model.tar.gz", "a.tar.gz"]


def test_a_deleted_endpoint_leaves_no_models(endpoint, tritons, tmp_path):
    asked(endpoint, "a.tar.gz")
    assert any("behaviour" in path for path in tree(tmp_path))
    endpoint.delete()
    assert not tritons[0].running
    assert not any("behaviour" in path for path in tree(tmp_path))
    assert endpoint.client("s3").get_object(Bucket=endpoint.bucket, Key=f"{SHELF}a.tar.gz")["Body"].read()


def test_a_container_short_of_memory_for_a_request_unloads_a_model(endpoint, tritons):
    assert asked(endpoint, "a.tar.gz") + asked(endpoint, "b/1/model.tar.gz") == "ab"
    assert asked(endpoint, "a.tar.gz", b"greedy") == "a"
    assert tritons[0].unloads == ["b/1/model.tar.gz"]


def test_a_model_that_never_fits_evicts_one_model_per_request(endpoint, tritons):
    for target in ("c.tar.gz", "d.tar.gz"):
        endpoint.upload(f"endpoints/e/{target}", archive("answer more"))
        asked(endpoint, target)
    assert asked(endpoint, "a.tar.gz") + asked(endpoint, "b/1/model.tar.gz") == "ab"
    for number in (1, 2):
        response = failure(endpoint, TargetModel="a.tar.gz", Body=b"hopeless")
        assert (response["OriginalStatusCode"], response["OriginalMessage"]) == (507, TOO_LARGE)
        assert tritons[0].unloads == ["c.tar.gz", "d.tar.gz"][:number]


def test_objects_outside_the_prefix_are_unreachable(endpoint, tritons):
    endpoint.upload("endpoints/other/a.tar.gz", archive("answer the other endpoint's"))
    endpoint.upload("endpoints/e-a.tar.gz", archive("answer a name that begins alike"))
    for target in ("../other/a.tar.gz", "%2e%2e/other/a.tar.gz", "..", "b/../../other/a.tar.gz"):
        assert failure(endpoint, TargetModel=target)["Error"]["Code"] == "ValidationError"
    for target in ("-a.tar.gz", "endpoints/other/a.tar.gz", f"{endpoint.bucket}/{SHELF}a.tar.gz"):
        error = failure(endpoint, TargetModel=target)["Error"]
        assert f"key: {SHELF}{target})" in error["Message"]
    assert tritons[0].loads == []


def test_the_volume_has_the_variants_size(endpoint):
    endpoint.config("small", model="e", VolumeSizeInGB=1)
    endpoint.update("small")
    assert endpoint.settled("e")["EndpointConfigName"] == "small"
    assert asked(endpoint, "a.tar.gz") == "a"
    endpoint.upload(f"{SHELF}c.tar.gz", claiming(2 << 30))
    error = failure(endpoint, TargetModel="c.tar.gz")["Error"]
    assert "volume of 1 GB" in error["Message"]


def test_multi_model_metrics_are_published(endpoint):
    for target in ("a.tar.gz", "a.tar.gz", "b/1/model.tar.gz"):
        asked(endpoint, target)
    eventually(lambda: endpoint.metric("ModelCacheHit", "SampleCount", "Sum") == (3, 1))
    assert endpoint.metric("ModelLoadingTime", "SampleCount") == (2,)
    own = {"namespace": "/aws/sagemaker/Endpoints"}
    eventually(lambda: endpoint.metric("LoadedModelCount", "Maximum", **own) == (2,))


def test_cold_loads_count_as_overhead_and_loading_time(endpoint, tritons):
    """The overhead-p99 alarm of multi-model endpoints subtracts the loading time."""
    targets = [f"cold/{number}.tar.gz" for number in range(8)]
    for target in targets:
        endpoint.upload(f"{SHELF}{target}", archive("answer x"))
    tritons[0].may_load.clear()
    threading.Timer(1.0, tritons[0].may_load.set).start()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda target: asked(endpoint, target), targets)) == ["x"] * 8
    eventually(lambda: endpoint.metric("OverheadLatency", "SampleCount") == (8,))
    (overhead,) = endpoint.metric("OverheadLatency", "Maximum")
    loads, longest = endpoint.metric("ModelLoadingWaitTime", "SampleCount", "Maximum")
    assert (loads, overhead > 800_000, longest > overhead / 2) == (8, True, True)

"""Models on a server that cannot hold all of them, with strict fakes of the server and S3."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, tarball
from packages.local_cloud.tests.sagemaker.multi_model.fake_triton import TARGET, MultiModelTriton, archive
from packages.local_cloud.tests.sagemaker.multi_model.model_bucket import ModelBucket
from tritonstack.runtime import TritonTimeoutError
from tritonstack_local.sagemaker.multi_model import (
    DownloadFolders,
    HostedModels,
    LoadRejectedError,
    Measures,
)
from tritonstack_local.sagemaker.multi_model import hosted as hosted_module
from tritonstack_local.sagemaker.servers.limits import Limits
from tritonstack_local.sagemaker.servers.server import ServerOrder
from tritonstack_local.service.errors import ServiceError

TARGETS = "abcdefgh"
UNLIMITED = Limits(memory_bytes=None, volume_bytes=None)
MIB = 1 << 20
KIB = 1 << 10


def holding(number):
    return replace(UNLIMITED, loaded_models=number)


class Hosting:
    """A server, its volume, and the S3 prefix of its models."""

    def __init__(self, folder, limits, **options):
        self.folder = folder / "models"
        self.folder.mkdir()
        variables = {"SAGEMAKER_MULTI_MODEL": "true"}
        order = ServerOrder(model_root=self.folder, environment=variables, state_dir=folder, image=IMAGE)
        self.server = MultiModelTriton(order)
        self.shelf = ModelBucket()
        self.shelf.objects = {target: archive(f"answer {target}") for target in TARGETS}
        self.data = []
        self.models = HostedModels(
            server=self.server,
            folders=DownloadFolders(s3=self.shelf, url=self.shelf.url, folder=self.folder),
            limits=limits,
            measures=Measures(self.data.extend, endpoint="e", variant="v"),
            **{"keep": True, **options},
        )

    def ask(self, target, body=b"ask", *, timeout_s=20):
        with self.models.reserved(target) as model:
            model.wait(timeout_s)
            return self.server.request("POST", model.path, body=body, headers={TARGET: target}, timeout_s=10)

    def said(self, target, body=b"ask", **options):
        answer = self.ask(target, body, **options)
        assert answer.status == 200, answer
        return answer.body.decode()

    def error_of(self, target, **options):
        with pytest.raises((ServiceError, LoadRejectedError)) as caught:
            self.ask(target, **options)
        return caught.value

    @property
    def on_volume(self):
        return len(list(self.folder.iterdir()))


@pytest.fixture
def instance(tmp_path):
    made = []

    def make(limits=UNLIMITED, **options):
        made.append(Hosting(tmp_path, limits, **options))
        return made[-1]

    yield make
    for one in made:
        one.server.released.set()
        one.models.close()
        assert one.server.broken == []


def eventually(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_the_least_recently_used_model_is_unloaded(instance):
    one = instance(holding(2))
    assert [one.said(target) for target in "abac"] == list("abac")
    assert one.server.unloads == ["b"]
    assert [one.models.holds(target) for target in "abc"] == [True, False, True]
    assert one.said("b") == "b"
    assert one.server.unloads == ["b", "a"]
    assert one.server.most_loaded == 2


def test_an_unloaded_model_is_reloaded_from_the_volume(instance):
    one = instance(holding(1))
    assert [one.said(target) for target in "abab"] == list("abab")
    assert one.server.loads == list("abab")
    assert one.shelf.asked == {"a": 1, "b": 1}


def test_a_cached_model_is_not_downloaded_again(instance):
    one = instance(holding(1))
    assert one.said("a") + one.said("b") == "ab"
    one.shelf.objects["a"] = archive("answer changed")
    del one.shelf.objects["b"]
    assert one.said("a") + one.said("b") == "ab"


def test_without_a_cache_a_changed_object_is_downloaded(instance):
    one = instance(keep=False)
    assert one.said("a") == "a"
    one.shelf.objects["a"] = archive("answer changed")
    assert one.said("a") == "changed"
    del one.shelf.objects["a"]
    assert "Failed to download model data" in one.error_of("a").message
    eventually(lambda: one.on_volume == 0)


def test_a_model_in_use_is_not_unloaded_and_the_request_waits(instance):
    one = instance(holding(1))
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(one.said, "a", b"hold")
        assert one.server.holding.wait(10)
        waiting = pool.submit(one.said, "b")
        eventually(lambda: one.on_volume == 2)
        assert not wait([waiting], timeout=0.05).done
        assert one.server.unloads == []
        one.server.released.set()
        assert (held.result(), waiting.result()) == ("a", "b")
    assert one.server.unloads == ["a"]


def test_a_timed_out_request_keeps_its_model_in_use(instance, monkeypatch):
    monkeypatch.setattr(hosted_module, "GIVEN_UP_REQUEST_S", 0.3)
    one = instance(holding(1))
    with pytest.raises(TritonTimeoutError):
        one.ask("a", b"late")
    assert one.error_of("b", timeout_s=0.01).code == "ModelNotReadyException"
    assert one.said("a") == "a"
    assert one.server.unloads == []
    one.server.end_late_request()
    assert one.said("b") == "b"
    assert one.server.unloads == ["a"]


def test_a_request_that_waits_too_long_gets_model_not_ready(instance):
    one = instance(holding(1))
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(one.said, "a", b"hold")
        assert one.server.holding.wait(10)
        rejected = one.error_of("b", timeout_s=0.01)
        assert (rejected.code, rejected.status) == ("ModelNotReadyException", 429)
        one.server.released.set()
        held.result()
    eventually(lambda: one.models.holds("b"))
    assert one.said("b") == "b"
    assert one.server.loads == ["a", "b"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_slow_load_continues_for_later_requests(instance, keep):
    one = instance(keep=keep)
    one.server.may_load.clear()
    rejected = one.error_of("a", timeout_s=0.01)
    assert (rejected.code, rejected.status) == ("ModelNotReadyException", 429)
    one.server.may_load.set()
    assert one.said("a") == "a"
    assert one.server.loads == ["a"]


def test_507_unloads_the_least_recently_used_model_and_retries(instance):
    one = instance()
    one.server.capacity = 2
    assert [one.said(target) for target in "abac"] == list("abac")
    assert one.server.unloads == ["b"]
    assert one.server.loads == list("abcc")


def test_a_load_that_never_fits_evicts_one_model_per_request(instance):
    one = instance()
    assert [one.said(target) for target in "abcd"] == list("abcd")
    one.shelf.objects["e"] = archive("reject 507 CUDA out of memory: tried to allocate 90 GiB")
    for number in (1, 2):
        rejected = one.error_of("e")
        assert (rejected.status, rejected.text) == (507, "CUDA out of memory: tried to allocate 90 GiB")
        assert one.server.unloads == list("ab")[:number]


def test_relieve_unloads_one_idle_model(instance):
    one = instance()
    assert [one.said(target) for target in "abc"] == list("abc")
    with one.models.reserved("a"):
        assert one.models.relieve()
        assert one.server.unloads == ["b"]
        assert one.models.relieve()
        assert not one.models.relieve()
    assert one.server.unloads == ["b", "c"]


def test_models_are_unloaded_when_server_memory_is_short(instance):
    one = instance(replace(UNLIMITED, memory_bytes=100 * MIB))
    one.server.weight = 31 * MIB
    assert [one.said(target) for target in "abcd"] == list("abcd")
    # Three weigh 93 MiB, and what is above 90 is too much for another.
    assert one.server.unloads == ["a"]
    assert one.server.most_loaded == 3


def test_needed_memory_is_estimated_from_the_unpacked_size(instance):
    one = instance(replace(UNLIMITED, memory_bytes=10 * MIB))
    one.server.weight = 4 * MIB
    one.shelf.objects["b"] = packed("b", int(4.9 * MIB))
    one.shelf.objects["c"] = packed("c", int(5.1 * MIB))
    assert one.said("a") + one.said("b") == "ab"
    assert one.server.unloads == []
    one.models.relieve()
    assert one.said("c") == "c"
    assert one.server.unloads == ["a", "b"]


def test_a_model_larger_than_memory_is_still_loaded(instance):
    one = instance(replace(UNLIMITED, memory_bytes=1))
    assert [one.said(target) for target in "aba"] == list("aba")
    assert one.server.unloads == list("ab")


def packed(target, size):
    """A model slightly larger than this on the volume; its archive is tiny."""
    return tarball({"model/behaviour": f"answer {target}", "model/weights": bytes(size)})


@pytest.fixture
def small_volume(instance):
    """A volume that holds two models."""
    one = instance(Limits(memory_bytes=None, volume_bytes=500 * KIB, loaded_models=2))
    one.shelf.objects = {target: packed(target, 200 * KIB) for target in TARGETS}
    return one


def test_a_full_volume_deletes_unloaded_models(small_volume):
    one = small_volume
    assert one.said("a") + one.said("b") == "ab"
    one.models.relieve()
    assert one.said("c") == "c"
    # "a" was not loaded any more, and so its folder went without the server hearing of it.
    assert one.server.unloads == ["a"]
    assert one.on_volume == 2
    assert one.said("a") == "a"
    assert one.shelf.asked["a"] == 2


def test_a_model_larger_than_the_volume_is_rejected(small_volume):
    one = small_volume
    one.shelf.objects["a"] = packed("a", 600 * KIB)
    rejected = one.error_of("a")
    assert rejected.code == "ValidationError"
    assert "does not fit on the instance's volume" in rejected.message
    assert one.on_volume == 0
    assert one.said("b") + one.said("c") == "bc"


@pytest.mark.parametrize(
    ("limits", "capacity", "keep"),
    [
        (holding(2), 1000, True),
        (UNLIMITED, 2, True),
        (Limits(memory_bytes=None, volume_bytes=500 * KIB, loaded_models=3), 1000, True),
        (holding(2), 1000, False),
        (UNLIMITED, 2, False),
    ],
    ids=["number", "507", "volume", "number-uncached", "507-uncached"],
)
def test_many_requests_for_more_models_than_fit(instance, limits, capacity, keep):
    others = set(threading.enumerate())  # tests before this one may have left some
    one = instance(limits, keep=keep)
    one.server.capacity = capacity
    if limits.volume_bytes:
        one.shelf.objects = {target: packed(target, 190 * KIB) for target in TARGETS}
    chance = random.Random(3)  # noqa: S311 - the same requests in every run
    targets = [min(chance.choices(TARGETS, k=2)) for _ in range(240)]
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one.said, targets)) == targets
    if limits.loaded_models:
        assert one.server.most_loaded <= limits.loaded_models
    if not keep:
        eventually(lambda: one.on_volume == 0)
    eventually(lambda: len(one.server.loaded) == one.models.loaded_count())
    assert len(set(threading.enumerate()) - others) < 40

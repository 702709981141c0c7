"""Models on a server that cannot hold all of them, with strict fakes of the server and S3."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from types import SimpleNamespace

import pytest

from packages.local_cloud.tests.sagemaker.cloud import IMAGE, eventually
from packages.local_cloud.tests.sagemaker.fakes import tarball
from packages.local_cloud.tests.sagemaker.servers.fake_triton import TARGET, MultiModelTriton, archive
from packages.local_cloud.tests.sagemaker.servers.model_bucket import ModelBucket
from tritonstack.triton import TritonTimeoutError, TritonUnreachableError
from tritonstack_local.sagemaker import dependencies as limits_module
from tritonstack_local.sagemaker.dependencies import Limits
from tritonstack_local.sagemaker.hosting.instances import EndpointInstance, RunningContainer
from tritonstack_local.sagemaker.servers import models as hosted_module
from tritonstack_local.sagemaker.servers.downloads import Downloads
from tritonstack_local.sagemaker.servers.models import HostedModels, LoadRejectedError
from tritonstack_local.sagemaker.servers.server import ServerOrder
from tritonstack_local.service.errors import ServiceError

TARGETS = "abcdefgh"
UNLIMITED = Limits(memory_bytes=None)
MIB = 1 << 20
KIB = 1 << 10


def holding(number):
    return replace(UNLIMITED, loaded_models=number)


class Hosting:
    """A server, its volume, and the S3 prefix of its models."""

    def __init__(self, folder, limits, volume_bytes=None, **options):
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
            downloads=Downloads(
                s3=self.shelf, url=self.shelf.url, folder=self.folder, volume_bytes=volume_bytes
            ),
            limits=limits,
            measure=lambda *metric: self.data.append(metric),
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


def test_the_least_recently_used_model_is_unloaded(instance):
    one = instance(holding(2))
    assert [one.said(target) for target in "abac"] == list("abac")
    assert one.server.unloads == ["b"]
    assert [one.models.holds(target) for target in "abc"] == [True, False, True]
    assert one.said("b") == "b"
    assert one.server.unloads == ["b", "a"]
    assert one.server.most_loaded == 2


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
    assert one.error_of("a").code == "ValidationError"
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


def test_an_abandoned_load_keeps_its_download(instance):
    one = instance(holding(1), limit_s=0.5)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(one.said, "a", b"hold")
        assert one.server.holding.wait(10)
        assert one.error_of("b").code == "ModelNotReadyException"
        one.server.released.set()
        held.result()
    assert one.said("b") == "b"
    assert one.shelf.asked["b"] == 1


@pytest.mark.parametrize("keep", [True, False])
def test_a_slow_load_continues_for_later_requests(instance, keep):
    one = instance(keep=keep)
    one.server.may_load.clear()
    rejected = one.error_of("a", timeout_s=0.01)
    assert (rejected.code, rejected.status) == ("ModelNotReadyException", 429)
    one.server.may_load.set()
    assert one.said("a") == "a"
    assert one.server.loads == ["a"]


def test_downloads_share_the_load_timeout(instance):
    one = instance(limit_s=-1)
    assert "unpacked within" in one.error_of("a").message
    assert one.server.loads == []


def test_an_ending_server_starts_no_downloads(instance):
    one = instance()
    one.models.close()
    with pytest.raises(TritonUnreachableError, match="is ending"):
        one.said("a")
    assert one.server.loads == []
    assert "ModelCacheHit" not in {name for name, _, _ in one.data}  # another server counts the request


def test_507_unloads_the_least_recently_used_model_and_retries(instance):
    one = instance()
    one.server.capacity = 2
    assert [one.said(target) for target in "abac"] == list("abac")
    assert one.server.unloads == ["b"]
    assert one.server.loads == list("abcc")


def test_507_with_nothing_to_unload_returns_the_containers_message(instance):
    one = instance()
    one.server.capacity = 1
    assert one.said("a") == "a"
    one.server.capacity = 0
    rejected = one.error_of("b")
    assert (rejected.status, "out of memory" in rejected.text) == (507, True)
    assert one.server.unloads == ["a"]
    one.server.capacity = 1
    assert one.said("b") == "b"


def test_a_load_that_never_fits_evicts_one_model_per_request(instance):
    one = instance()
    assert [one.said(target) for target in "abcd"] == list("abcd")
    one.shelf.objects["e"] = archive("reject 507 90 GiB")
    for number in (1, 2):
        rejected = one.error_of("e")
        assert (rejected.status, rejected.text) == (507, "90 GiB")
        assert one.server.unloads == list("ab")[:number]


def test_a_hanging_load_does_not_block_others(instance, monkeypatch):
    """Nothing else could be unloaded for it, so it runs alone and others wait."""
    monkeypatch.setattr(hosted_module, "HANGING_AFTER_S", 0.2)
    one = instance(replace(UNLIMITED, memory_bytes=1))
    one.shelf.objects["a"] = archive("stall")
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(one.said, "a")
        assert one.server.loading.wait(10)
        assert [one.said(target, timeout_s=5) for target in "bcb"] == list("bcb")
        assert not hanging.done()
        one.server.released.set()
        assert hanging.result() == ""


def test_relieve_unloads_one_idle_model(instance):
    one = instance()
    assert [one.said(target) for target in "abc"] == list("abc")
    with one.models.reserved("a"):
        assert one.models.relieve()
        assert one.server.unloads == ["b"]
        assert one.models.relieve()
        assert not one.models.relieve()
    assert one.server.unloads == ["b", "c"]


def test_waiting_for_an_unload_respects_the_requests_timeout(instance):
    one, goes_on = instance(), threading.Event()
    one.server.while_unloading = lambda: goes_on.wait(20)
    assert one.said("a") == "a"
    assert not one.models.relieve(timeout_s=0.01)
    goes_on.set()
    eventually(lambda: one.server.unloads == ["a"])
    assert one.said("a") == "a"


def test_a_model_whose_unload_failed_can_be_loaded_again(instance, monkeypatch):
    one = instance()
    assert one.said("a") == "a"

    def breaks(*_arguments):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Downloads, "let_go", breaks)
        one.models.relieve(timeout_s=10)
        eventually(lambda: not one.models.unloading)
    assert one.said("a", timeout_s=10) == "a"


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


def test_the_machines_memory_is_a_limit(instance, monkeypatch):
    one = instance()
    assert one.said("a") == "a"
    monkeypatch.setattr(limits_module, "free_memory", lambda: 0)
    assert one.said("b") == "b"
    assert one.server.unloads == ["a"]


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
    one = instance(holding(2), volume_bytes=500 * KIB)
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


def test_a_full_volume_of_loaded_models_unloads_and_deletes_an_idle_one(small_volume):
    one = small_volume
    assert [one.said(target) for target in "abc"] == list("abc")
    assert one.server.unloads == ["a"]
    assert one.on_volume == 2


def test_a_reloaded_model_is_not_deleted_from_the_volume(small_volume):
    one = small_volume
    assert one.said("a") + one.said("b") == "ab"
    one.models.relieve()
    assert one.said("a") + one.said("c") == "ac"
    assert one.server.unloads == ["a", "b"]
    assert [one.models.holds(target) for target in "abc"] == [True, False, True]


def test_a_model_larger_than_the_volume_is_rejected(small_volume):
    one = small_volume
    one.shelf.objects["a"] = packed("a", 600 * KIB)
    rejected = one.error_of("a")
    assert rejected.code == "ValidationError"
    assert "does not fit" in rejected.message
    assert one.on_volume == 0
    assert one.said("b") + one.said("c") == "bc"


def test_part_of_the_machines_disk_stays_free(instance, monkeypatch):
    one = instance()
    monkeypatch.setattr("tritonstack_local.sagemaker.servers.downloads.DISK_RESERVE_BYTES", 1 << 62)
    assert "no space" in one.error_of("a").message
    assert one.on_volume == 0


def test_a_failed_load_releases_its_disk_space(instance):
    one = instance(holding(1))
    one.shelf.objects["a"] = archive("reject 400 no such tensor")
    one.server.may_load.clear()
    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(one.error_of, "a")
        eventually(lambda: one.server.loads == ["a"])
        waiting = pool.submit(one.said, "b")
        one.server.may_load.set()
        assert failing.result().text == "no such tensor"
        assert waiting.result() == "b"
    assert one.on_volume == 1


def test_a_models_folder_is_kept_while_its_unload_is_unconfirmed(instance):
    one = instance(holding(1))
    assert one.said("a") == "a"
    one.server.rejects_to_unload = True
    assert one.said("b") == "b"
    assert one.on_volume == 2
    one.server.rejects_to_unload = False
    assert one.said("a") == "a"  # it stayed loaded
    assert one.shelf.asked["a"] == 1


def test_a_timed_out_load_may_have_succeeded(instance):
    one = instance()
    one.shelf.objects["a"] = archive("hang answer")
    assert one.error_of("a").status == 0
    assert one.on_volume == 1
    assert one.said("a") == "answer"


def test_a_server_may_miss_pings_during_an_unload(instance, tmp_path):
    one, answered = instance(holding(1)), []

    class Deaf:
        def request(self, *_, timeout_s, **__):
            raise TritonTimeoutError(f"no answer within {timeout_s} s")

    watched = EndpointInstance(
        plan=SimpleNamespace(endpoint="e", variant="v"), id_="i", folder=tmp_path, start=None, log=None
    )
    watched._container = RunningContainer(server=Deaf(), models=one.models)
    one.server.while_unloading = lambda: answered.append(watched.answers_ping(1))
    assert one.said("a") + one.said("b") == "ab"
    assert answered == [True]
    assert not watched.answers_ping(1)


def test_waiting_requests_report_that_they_were_not_sent(instance):
    one = instance(holding(1))
    with ThreadPoolExecutor(2) as pool:
        held = pool.submit(one.said, "a", b"hold")
        assert one.server.holding.wait(10)
        waiting = pool.submit(one.said, "b")
        eventually(lambda: one.on_volume == 2)
        one.models.close()
        assert isinstance(waiting.exception(), TritonUnreachableError)
        one.server.released.set()
        held.result()


@pytest.mark.parametrize(
    ("limits", "capacity", "options"),
    [
        (holding(2), 1000, {}),
        (UNLIMITED, 2, {}),
        (holding(3), 1000, {"volume_bytes": 500 * KIB}),
        (holding(2), 1000, {"keep": False}),
        (UNLIMITED, 2, {"keep": False}),
    ],
    ids=["number", "507", "volume", "number-uncached", "507-uncached"],
)
def test_many_requests_for_more_models_than_fit(instance, limits, capacity, options):
    others = set(threading.enumerate())  # tests before this one may have left some
    one = instance(limits, **options)
    one.server.capacity = capacity
    if "volume_bytes" in options:
        one.shelf.objects = {target: packed(target, 190 * KIB) for target in TARGETS}
    chance = random.Random(3)  # noqa: S311 - the same requests in every run
    targets = [min(chance.choices(TARGETS, k=2)) for _ in range(240)]
    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one.said, targets)) == targets
    if limits.loaded_models:
        assert one.server.most_loaded <= limits.loaded_models
    if "keep" in options:
        eventually(lambda: one.on_volume == 0)
    eventually(lambda: len(one.server.loaded) == one.models.loaded_count())
    assert len(set(threading.enumerate()) - others) < 40


def test_published_metrics(instance):
    one = instance(holding(1))
    for target in "aab":
        one.said(target)
    one.error_of("missing")
    one.models.relieve()
    counts = {name: [unit for known, _, unit in one.data if known == name] for name, _, _ in one.data}
    assert counts == {
        "ModelCacheHit": ["None"] * 4,
        "ModelLoadingWaitTime": ["Microseconds"] * 3,
        "ModelDownloadingTime": ["Microseconds"] * 2,
        "ModelLoadingTime": ["Microseconds"] * 2,
        "ModelUnloadingTime": ["Microseconds"] * 2,
    }
    assert [value for name, value, _ in one.data if name == "ModelCacheHit"] == [0, 1, 0, 0]
    assert all(value > 0 for _, value, unit in one.data if unit == "Microseconds")

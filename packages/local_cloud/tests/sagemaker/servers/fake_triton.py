"""A strict fake of a multi-model Triton."""

import json
import os
import threading
from contextlib import contextmanager
from pathlib import Path

from packages.local_cloud.tests.sagemaker.fakes import BlockingServer, tarball
from tritonstack.triton import TritonFailedError, TritonResponse, TritonTimeoutError

SEEN_ROOT = Path("/opt/ml/models")
TARGET = "X-Amzn-SageMaker-Target-Model"
FULL = "CUDA out of memory"


def archive(behaviour: str) -> bytes:
    """A model for the fake Triton; its text defines what a load does.

    `answer WORDS`, `reject STATUS WORDS`, `hang`, `die`, or `stall`, which waits for `released`.
    """
    return tarball({"model/behaviour": behaviour})


class MultiModelTriton(BlockingServer):
    """Loads, invokes, and unloads models by Triton's rules; rejects what breaks or hangs a real one.

    A load waits for `may_load`; a request whose body is `hold` for `released`; one whose body is `greedy`
    lacks memory as long as another model is loaded, a `hopeless` one always; a `late` one runs until
    `end_late_request`. Loads end in vain while more than `capacity` models are loaded or on their way in;
    each weighs `weight`. What a real one would break of is kept in `broken`, as who has asked may not hear
    of it.
    """

    model_root = SEEN_ROOT

    def __init__(self, order):
        assert order.environment["SAGEMAKER_MULTI_MODEL"] == "true"
        assert list(order.model_root.iterdir()) == [], "a multi-model endpoint starts without a model"
        self.order = order
        self.log_path = order.state_dir / "triton.log"
        self.log_path.touch()
        self.loaded: dict[str, tuple[str, str]] = {}
        self.loads: list[str] = []
        self.unloads: list[str] = []
        self.broken: list[str] = []
        self.capacity = 1000
        self.weight = 0
        self.most_loaded = 0
        self.rejects_to_unload = False
        self.while_unloading = lambda: None
        self.may_load = threading.Event()
        self.may_load.set()
        self.loading = threading.Event()
        self.holding = threading.Event()
        self.released = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._asked = dict[str, int]()
        self._on_their_way = set[str]()
        self._lock = threading.RLock()

    @property
    def pid(self):
        return os.getpid()

    @property
    def running(self):
        return self._running.is_set()

    def wait_ready(self, *, timeout_s):
        del timeout_s

    def stop(self, *, grace_s=30.0):
        del grace_s
        self._running.clear()
        self.may_load.set()

    def memory_held(self):
        return self.weight * len(self.loaded)

    def request(self, method, path, *, body, headers, timeout_s):
        try:
            return self._answer(method, path, body, headers, timeout_s)
        except AssertionError as error:
            self.broken.append(str(error))
            raise

    def _answer(self, method, path, body, headers, timeout_s):
        if (method, path) == ("GET", "/ping"):
            return answer(200, "")
        assert self.running, "a request reached a server that was stopped"
        assert 0 < timeout_s <= 360
        target = headers[TARGET]
        if (method, path) == ("POST", "/models"):
            return self._load(json.loads(body), target)
        name = path.split("/")[2]
        assert path.startswith("/models/")
        with self._lock:
            if name not in self.loaded:
                return answer(404, "no such model")
            assert self.loaded[name][0] == target, "another model's header answers from that other model"
            if method == "DELETE":
                return self._unload(name, target)
        assert (method, path) == ("POST", f"/models/{name}/invoke")
        return self._ask(name, body, headers)

    def _load(self, order, target):
        name, url = order["model_name"], order["url"]
        assert url == f"{SEEN_ROOT}/{name}/model"
        folder = self.order.model_root / name / "model"
        with self._lock:
            self.loads.append(target)
            if name in self.loaded:
                return answer(409, "already loaded")
            assert target not in self._on_their_way, "a model is loaded twice at once"
        with self._way_in(target):
            self.loading.set()
            assert self.may_load.wait(30)
            verb, _, words = (folder / "model/behaviour").read_text().partition(" ")
            if len(self.loaded) + len(self._on_their_way) > self.capacity:
                return answer(507, FULL)
            if verb == "hang":
                self.loaded[name] = (target, words)
                raise TritonTimeoutError("no answer")
            if verb == "stall":
                assert self.released.wait(30)
            if verb == "die":
                self._running.clear()
                raise TritonFailedError("tritonserver has ended with exit status 139")
            if verb == "reject":
                status, _, said = words.partition(" ")
                return answer(int(status), said)
            with self._lock:
                self.loaded[name] = (target, words)
            return answer(200, "")

    @contextmanager
    def _way_in(self, target):
        with self._lock:
            self._on_their_way.add(target)
            self.most_loaded = max(self.most_loaded, len(self.loaded) + len(self._on_their_way))
        try:
            yield
        finally:
            with self._lock:
                self._on_their_way.discard(target)

    def _ask(self, name, body, headers):
        with self._lock:
            assert name in self.loaded, "a model was unloaded while a request was on its way to it"
            self._asked[name] = self._asked.get(name, 0) + 1
            words, others = self.loaded[name][1], len(self.loaded) - 1
        if body == b"hold":
            self.holding.set()
            assert self.released.wait(30)
        if body == b"late":
            self.late = name  # its answer would come after the timeout
            raise TritonTimeoutError("no answer")
        with self._lock:
            self._asked[name] -= 1
        if body == b"hopeless" or (body == b"greedy" and others):
            return answer(507, FULL)
        return answer(200, words, headers)

    def end_late_request(self):
        with self._lock:
            self._asked[self.late] -= 1

    def _unload(self, name, target):
        assert not self._asked.get(name), "unloading a model under a running request deadlocks a Triton"
        for loaded in self.loaded:
            folder = self.order.model_root / loaded / "model"
            assert (folder / "model/behaviour").is_file(), "a folder that has gone crashes a Triton"
        self.while_unloading()
        if self.rejects_to_unload:
            return answer(400, "not now")
        del self.loaded[name]
        self.unloads.append(target)
        return answer(200, "")


def answer(status, words, headers=()):
    echoed = {name.lower(): value for name, value in dict(headers).items()}
    return TritonResponse(status=status, headers=echoed, body=words.encode())

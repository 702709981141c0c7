"""A strict stand-in for a Triton that serves many models."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from tests.local_cloud.sagemaker.cloud import tarball
from triton_runtime import TritonFailedError, TritonResponse, TritonTimeoutError

SEEN_ROOT = Path("/opt/ml/models")
TARGET = "X-Amzn-SageMaker-Target-Model"


def archive(behaviour: str) -> bytes:
    """A model for the stand-in: `answer WORDS`, `refuse STATUS WORDS`, `hang` or `die` when it is loaded."""
    return tarball({"model/behaviour": behaviour})


class MultiModelTriton:
    """Loads, asks and unloads models by Triton's rules, and refuses what breaks or hangs a real one.

    A load waits for `may_load`; a request whose body is `hold` for `released`.
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
        self.may_load = threading.Event()
        self.may_load.set()
        self.loading = threading.Event()
        self.holding = threading.Event()
        self.released = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._asked = dict[str, int]()
        self._lock = threading.Lock()

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

    def request(self, method, path, *, body, headers, timeout_s):
        if (method, path) == ("GET", "/ping"):
            return answer(200, "")
        assert self.running, "a request reached a server that was stopped"
        assert 0 < timeout_s <= 360
        target = headers[TARGET]
        if (method, path) == ("POST", "/models"):
            return self._load(json.loads(body), target)
        name = path.split("/")[2]
        assert path.startswith("/models/")
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
        self.loads.append(target)
        self.loading.set()
        assert self.may_load.wait(30)
        if name in self.loaded:
            return answer(409, "already loaded")
        verb, _, words = (folder / "model/behaviour").read_text().partition(" ")
        if verb == "hang":
            raise TritonTimeoutError("no answer")
        if verb == "die":
            self._running.clear()
            raise TritonFailedError("tritonserver has ended with exit status 139")
        if verb == "refuse":
            status, _, said = words.partition(" ")
            return answer(int(status), said)
        self.loaded[name] = (target, words)
        return answer(200, "")

    def _ask(self, name, body, headers):
        with self._lock:
            self._asked[name] = self._asked.get(name, 0) + 1
        if body == b"hold":
            self.holding.set()
            assert self.released.wait(30)
        with self._lock:
            self._asked[name] -= 1
        return answer(200, self.loaded[name][1], headers)

    def _unload(self, name, target):
        assert not self._asked.get(name), "unloading a model under a running request deadlocks a Triton"
        assert (self.order.model_root / name).is_dir(), "a folder that has gone crashes a Triton"
        del self.loaded[name]
        self.unloads.append(target)
        return answer(200, "")


def answer(status, words, headers=()):
    echoed = {name.lower(): value for name, value in dict(headers).items()}
    return TritonResponse(status=status, headers=echoed, body=words.encode())

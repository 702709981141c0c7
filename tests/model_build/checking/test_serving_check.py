"""The serving check accepts any repository, compares everything, and reports the server's log."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.checking import archive_checks
from model_build.checking.archive_checks import AGAIN, HOSTED_AS, READY_WITHIN_S, ServingCheck
from model_build.checking.served_model import SEVERAL_REMEDY, WHOLE_LOG, ServingReport
from model_build.data import Case, batches, rows_of
from model_build.errors import ParityError, ServingError, SilentModelError
from model_build.job import BuildOrder, run_order
from model_build.repository.properties import (
    CpuInstances,
    RepositoryProperties,
    read_instances,
    read_properties,
)
from model_build.store.archive import pack
from tests.projects import write_project
from tritonstack.base.paths import find_project
from tritonstack.triton import TritonResponse, TritonServer, find_installation

FAILING = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
"""
IN_EXECUTE = """\
    def execute(self, requests):
        raise KeyError("no such column")
"""
IN_INITIALIZE = """\
    def initialize(self, args):
        raise ValueError("weights are missing")

    def execute(self, requests):
        return []
"""
SEVERAL = """\
    def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "x").as_numpy()
            for _ in range(2):
                answer = pb_utils.InferenceResponse([pb_utils.Tensor("y", x)])
                request.get_response_sender().send(answer)
        return [None] * len(requests)
"""
MODEL = """\
name: failing
description: Fails.
recipe: {kind: python}
test_inputs: [{inputs: {x: [1.0]}, outputs: {y: [1.0]}}]
"""


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (IN_EXECUTE, "no such column"),
        (IN_INITIALIZE, "weights are missing"),
        (SEVERAL, "expected a single response, got 2"),
    ],
)
def test_the_whole_log_is_in_the_log_of_the_build(tmp_path, monkeypatch, body, message):
    server = find_project(Path(__file__)).server_dir
    monkeypatch.setenv("TRITONSTACK_HOME", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "server").symlink_to(server)
    project = write_project(tmp_path)
    model = project.model_file("failing")
    model.parent.mkdir()
    model.write_text(MODEL)
    (model.parent / "model.py").write_text(FAILING + body)
    events: list[dict[str, object]] = []
    log = io.StringIO()
    assert run_order(project, BuildOrder(model="failing", targets=["cpu"]), events.append, log) == 1
    failed: Any = events[-1]
    assert failed["event"] == "failed"
    assert message in failed["message"]
    assert len(failed["message"].splitlines()) <= 10
    assert WHOLE_LOG in failed["remedy"]
    assert "triton.log" not in failed["remedy"]
    assert (SEVERAL_REMEDY in failed["remedy"]) == (body == SEVERAL)
    assert "\0" not in failed["message"]
    assert "single-server, triton.log:" in log.getvalue()
    assert "server_version" in log.getvalue(), "also what Triton prints at its start"
    assert not list((tmp_path / "state" / "artifacts").rglob("*.tar.gz"))


CODE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            get = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            words, count = get("words"), get("count")
            shout = np.array([word.upper() for word in words.ravel()], dtype=object).reshape(words.shape)
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor("shout", shout), pb_utils.Tensor("more", count + %d)]
            ))
        return responses
"""
WEIGHT = 1000


def write_repository(folder: Path, *, max_batch: int = 0, extra: str = "", added: int = 1) -> Path:
    model = folder / "shouter"
    (model / "1").mkdir(parents=True)
    (model / "1/model.py").write_text(CODE % added)
    (model / "config.pbtxt").write_text(
        f'name: "shouter"\nbackend: "python"\nmax_batch_size: {max_batch}\n'
        'input { name: "words" data_type: TYPE_STRING dims: [ -1 ] }\n'
        'input { name: "count" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        'output { name: "shout" data_type: TYPE_STRING dims: [ -1 ] }\n'
        'output { name: "more" data_type: TYPE_INT32 dims: [ 1 ] }\n'
        f"instance_group {{ kind: KIND_CPU count: 2 }}\n{extra}\n"
    )
    return folder


def words(*items: bytes) -> np.ndarray[Any, Any]:
    return np.array(items, dtype=np.object_)


CASES = (
    Case(
        "two words",
        {"words": words(b"a", "ü".encode()), "count": np.array([7], dtype=np.int32)},
        {"shout": words(b"A", "ü".encode()), "more": np.array([8], dtype=np.int32)},
    ),
    Case(
        "three words",
        {"words": words(b"a", b"", b"c"), "count": np.array([0], dtype=np.int32)},
        {"shout": words(b"A", b"", b"C"), "more": np.array([1], dtype=np.int32)},
        typical=False,
    ),
)


def with_batch(case: Case, rows: int) -> Case:
    def grown(arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.repeat(array[np.newaxis], rows, axis=0) for name, array in arrays.items()}

    return Case(case.name, grown(case.inputs), grown(case.expected))


def serve(
    repository: Path,
    folder: Path,
    *,
    cases: Sequence[Case] = CASES,
    max_batch: int = 0,
    notify: Callable[[str], None] = print,
) -> ServingReport:
    check = ServingCheck(
        installation=find_installation(home=find_project(Path(__file__)).server_dir),
        packed=pack(repository, folder / "model.tar.gz"),
        entry="shouter",
        cases=cases,
        max_batch=max_batch,
        work=folder / "work",
        notify=notify,
    )
    return check.run()


@pytest.mark.e2e
def test_cases_of_several_rows_and_a_response_cache(tmp_path):
    repository = write_repository(
        tmp_path / "repository", max_batch=4, extra="response_cache { enable: true }\ndynamic_batching {}"
    )
    cases = [with_batch(CASES[0], 3), with_batch(CASES[1], 1)]
    served = serve(repository, tmp_path, cases=cases, max_batch=4)
    # Alone, together, at once, and twice in multi-model hosting, where the second answer is remembered.
    assert served.parity.cases == 2 * (2 + 2 + 4 + 4)
    assert [report.batch for report in served.latency] == [1, 4]


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("added", "expected", "error", "message"),
    [
        (2, CASES[0].expected, ParityError, "alone: two words"),
        (1, {**CASES[0].expected, "whisper": words(b"a", b"b")}, ServingError, "missing: whisper"),
    ],
)
def test_wrong_answers_fail_the_check(tmp_path, added, expected, error, message):
    repository = write_repository(tmp_path / "repository", added=added)
    with pytest.raises(error, match=message):
        serve(repository, tmp_path, cases=[Case("two words", CASES[0].inputs, expected)])


def test_a_model_without_test_requests_fails_the_check(tmp_path):
    with pytest.raises(ServingError, match="'shouter'"):
        serve(write_repository(tmp_path / "repository"), tmp_path, cases=[])


@pytest.mark.e2e
@pytest.mark.parametrize("lasting", [False, True])
def test_unresponsive_model_is_served_again(tmp_path, monkeypatch, lasting):
    """Triton's message about a silent process disappears with a new server if the machine was only busy."""
    body = b"""{"error":"in ensemble 'moods', Stub process 'shouter_0_0' is not healthy."}"""
    servers: list[TritonServer] = []
    really = TritonServer.request

    def request(server: TritonServer, method: str, path: str, **rest: Any) -> TritonResponse:
        if path == "/invocations" and (lasting or not servers):
            servers.append(server)
            return TritonResponse(status=500, headers={}, body=body)
        return really(server, method, path, **rest)

    monkeypatch.setattr(TritonServer, "request", request)
    lines: list[str] = []
    repository = write_repository(tmp_path / "repository")
    if lasting:
        with pytest.raises(SilentModelError, match="'shouter_0_0'"):
            serve(repository, tmp_path, notify=lines.append)
        assert len(set(servers)) == 2, "it is asked on a server of its own"
    else:
        assert serve(repository, tmp_path, notify=lines.append).parity is not None
    assert lines == [AGAIN]


@pytest.mark.e2e
def test_shared_memory_grows_with_the_largest_request(tmp_path):
    """The size that the server's regions really have, as the check measures it."""
    long = Case(
        "long",
        {"words": words(b"a" * 9_000_000), "count": np.array([7], dtype=np.int32)},
        {"shout": words(b"A" * 9_000_000), "more": np.array([8], dtype=np.int32)},
    )
    served = serve(write_repository(tmp_path / "repository"), tmp_path, cases=[long])
    # The request and its answer lie there together, in one copy's region at least.
    assert 18_000_000 < served.shared_memory_bytes < 80_000_000


@pytest.mark.parametrize(
    ("extra", "facts"),
    [
        ("", RepositoryProperties(keeps_answers=False, keeps_state=False)),
        ("response_cache { enable: true }", RepositoryProperties(keeps_answers=True, keeps_state=False)),
        ("sequence_batching { }", RepositoryProperties(keeps_answers=False, keeps_state=True)),
    ],
)
def test_the_configurations(tmp_path, extra, facts):
    repository = write_repository(tmp_path, extra=extra)
    (repository / "other").mkdir()
    (repository / "other/config.pbtxt").write_text('name: "other" backend: "python"')
    assert read_properties(repository) == facts


COPIES = CpuInstances(3, 2 * WEIGHT, False, 7)
FOREST = 'backend: "fil" parameters { key: "cpu_nthread" value: { string_value: "%d" } }'
THREADS = 'parameters { key: "intra_op_thread_count" value: { string_value: "1" } }'
GROUPS = [f"instance_group {{ count: {count} kind: KIND_CPU }}" for count in (1, 2, 3)]


@pytest.mark.parametrize(
    ("extra", "gpu", "instances"),
    [
        ("", False, CpuInstances(1, 0, False, 7)),
        (GROUPS[2], True, COPIES),
        ("instance_group { count: 3 }", False, COPIES),
        ("instance_group { count: 3 }", True, CpuInstances(1, 0, False, 7)),
        ("instance_group { count: 3 kind: KIND_GPU }", True, CpuInstances(1, 0, False, 7)),
        (GROUPS[1] + GROUPS[0], False, COPIES),
        (THREADS, False, CpuInstances(1, 0, True, 7)),
    ],
)
def test_the_instances_on_the_cpu(tmp_path, extra, gpu, instances):
    for name, config in {
        "graph": f'backend: "onnxruntime" {extra}',
        "steps": 'backend: "python" instance_group { count: 2 kind: KIND_GPU }',
        "one": FOREST % 3,
        "two": FOREST % 7,
        "all": 'platform: "ensemble" ensemble_scheduling { step { model_name: "graph" } }',
    }.items():
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
    (tmp_path / "graph/1/model.onnx").write_bytes(bytes(WEIGHT))
    assert read_instances(tmp_path, gpu=gpu) == instances


def test_rows_are_counted_not_cases():
    cases = [with_batch(CASES[0], 3) for _ in range(3)]
    assert [len(joined.inputs["count"]) for joined in batches(cases, 7)] == [6, 3]
    assert [len(joined.inputs["count"]) for joined in batches(cases, 2)] == [3, 3, 3]
    assert list(batches(cases, 0)) == []
    assert [row.inputs["count"].tolist() for row in rows_of(cases[0])] == [[[7]], [[7]], [[7]]]


@pytest.mark.e2e
@pytest.mark.parametrize("at_once", [True, False])
def test_small_artifacts_are_loaded_in_both_hosting_modes_at_once(tmp_path, monkeypatch, at_once):
    """Small ones with enough memory; others one after the other, so that they need memory only once."""
    paths: list[str] = []
    really = TritonServer.request

    def request(server: TritonServer, method: str, path: str, **rest: Any) -> TritonResponse:
        paths.append(path)
        return really(server, method, path, **rest)

    monkeypatch.setattr(TritonServer, "request", request)
    monkeypatch.setattr(archive_checks, "available_memory", lambda: archive_checks.MEMORY_FOR_BOTH)
    if not at_once:
        monkeypatch.setattr(archive_checks, "SMALL_BYTES", 0)
    served = serve(write_repository(tmp_path / "repository"), tmp_path)
    # Two outputs of each case alone, twice at once, and in multi-model hosting.
    assert served.parity.cases == 2 * (2 + 4 + 2)
    assert [report.batch for report in served.latency] == [1]
    # Two copies, each with the megabyte that it begins with.
    assert 2 << 20 <= served.shared_memory_bytes < 4 << 20
    first, second = ("/models", "/invocations") if at_once else ("/invocations", "/models")
    assert list(dict.fromkeys(paths)) == [first, second, f"/models/{HOSTED_AS}/invoke"]


@pytest.mark.e2e
def test_a_failure_in_one_mode_ends_the_other_while_it_loads(tmp_path, monkeypatch):
    really = TritonServer.wait_ready

    def wait_ready(server: TritonServer, *, timeout_s: float) -> None:
        if threading.current_thread() is threading.main_thread():
            raise ServingError("first", remedy=None)
        really(server, timeout_s=timeout_s)

    monkeypatch.setattr(TritonServer, "wait_ready", wait_ready)
    repository = write_repository(tmp_path / "repository")
    (repository / "shouter/1/model.py").write_text("import time\ntime.sleep(600)\n")
    begin = time.monotonic()
    with pytest.raises(ServingError, match="first"):
        serve(repository, tmp_path)
    assert time.monotonic() - begin < READY_WITHIN_S / 2

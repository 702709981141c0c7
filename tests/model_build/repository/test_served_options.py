"""Effects of Triton's options on a real server that loads every model as multi-model hosting does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_build.repository.layout import check_layout
from model_build.repository.parts import ModelProperties, add_python_model
from tests.model_build.repository.hosting import Host, hosting
from tests.model_build.repository.tiny_repositories import a_model
from tritonstack.client import TopClasses, parse_classes
from tritonstack.facts.targets import parse_target
from tritonstack.files.records.manifests import TensorSpec

pytestmark = pytest.mark.e2e

VALUES = TensorSpec(name="values", datatype="INT64", shape=(-1,))
WORDS = TensorSpec(name="words", datatype="BYTES", shape=(1,))
SEEN = TensorSpec(name="seen", datatype="INT64", shape=(-1,))
SCORES = TensorSpec(name="scores", datatype="FP32", shape=(3,), labels=("red", "green", "blue"))

HEAD = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n\n"
COUNTS = (
    HEAD
    + '''
class TritonPythonModel:
    """Answers with the number of requests in every call so far, and the sums of their values."""
    def initialize(self, args):
        self.seen = []
    def execute(self, requests):
        sums = [int(pb_utils.get_input_tensor_by_name(r, "values").as_numpy().sum()) for r in requests]
        words = [pb_utils.get_input_tensor_by_name(r, "words").as_numpy().ravel()[0] for r in requests]
        self.seen += [len(requests), sum(sums), sum(len(word) for word in words)]
        answer = np.array([self.seen], np.int64)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("seen", answer)]) for _ in requests]
'''
)
SCORER = (
    HEAD
    + """
class TritonPythonModel:
    def execute(self, requests):
        scores = np.array([[0.1, 0.7, 0.2]], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("scores", scores)]) for _ in requests]
"""
)
MODELS: dict[str, dict[str, Any]] = {
    "warm": {"code": COUNTS, "batching": "{max_batch: 4}", "triton": "{warm_up: true}"},
    "zeros": {"code": COUNTS, "batching": "{max_batch: 4}", "triton": "{warm_up: true}", "example": None},
    "queued": {
        "code": COUNTS,
        "batching": "{max_batch: 8, preferred_sizes: [4, 8], "
        "priorities: {levels: 2, default: 2}, "
        "queue: {timeout_us: 9000000, on_timeout: delay, max_waiting: 5}}",
    },
    "unbatched": {"code": COUNTS, "batching": "{max_batch: 0, queue: {max_waiting: 5}, keep_order: true}"},
    "ragged": {"code": COUNTS, "batching": "{ragged: [values], queue_delay_us: 200000}"},
    "several": {"code": COUNTS, "triton": "{instances: [{count: 2}], versions: {specific: [1]}}"},
    "labelled": {"code": SCORER},
}


def write_repository(root: Path, name: str, *, code: str, example: Any = ..., **blocks: str) -> None:
    model = a_model(root / "specs" / name, recipe="{kind: python}", **blocks)
    (root / "specs" / name / "model.py").write_text(code)
    row = {"values": np.array([[7, 8, 9]], np.int64), "words": np.array([["naïve"]], np.object_)}
    repository = root / "hosted" / name / "model"
    add_python_model(
        repository,
        name=name,
        code=root / "specs" / name / "model.py",
        inputs=(VALUES, WORDS),
        outputs=(SCORES,) if code == SCORER else (SEEN,),
        batching=model.record.batching,
        triton=model.record.triton,
        target=parse_target("cpu"),
        properties=ModelProperties(
            model=model, example=row if example is ... else example, environment=False
        ),
    )
    assert check_layout(repository) == name


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    root = tmp_path_factory.mktemp("options")
    for name, facts in MODELS.items():
        write_repository(root, name, **facts)
    with hosting(root / "hosted", root / "state") as host:
        yield host


def numbers(*values: int, words: str = "ab") -> dict[str, Any]:
    return {"values": np.array([values], np.int64), "words": np.array([[words]], np.object_)}


def test_a_model_is_warmed_up_before_the_first_request(host):
    """One call with one request, one with four, each with the first test input; then this one."""
    host.load("warm")
    calls = host.ask("warm", numbers(1))["seen"].ravel().tolist()
    assert calls == [1, 24, 6, 4, 96, 24, 1, 1, 2]


def test_zeros_warm_up_a_model_without_test_inputs(host):
    host.load("zeros")
    assert host.ask("zeros", numbers(1))["seen"].ravel().tolist() == [1, 0, 0, 4, 0, 0, 1, 1, 2]


@pytest.mark.parametrize("name", ["queued", "unbatched", "several"])
def test_configurations_that_load_and_answer(host, name):
    host.load(name)
    request = {key: array[0] for key, array in numbers(4).items()} if name == "unbatched" else numbers(4)
    parameters = {"priority": 1} if name == "queued" else {}
    assert host.ask(name, request, **parameters)["seen"].ravel().tolist() == [1, 4, 2]


def test_requests_of_different_sizes_share_a_call(host):
    from concurrent.futures import ThreadPoolExecutor

    host.load("ragged")
    with ThreadPoolExecutor(4) as pool:
        replies = pool.map(lambda size: host.ask("ragged", numbers(*range(size))), (1, 2, 3, 4))
        calls = max((reply["seen"].ravel().tolist() for reply in replies), key=len)
    assert sum(calls[0::3]) == 4
    assert max(calls[0::3]) > 1, "inputs of different sizes were batched"


def test_labels_are_used_by_the_classification_extension(host):
    host.load("labelled")
    answer = host.ask("labelled", numbers(1), outputs=[TopClasses("scores", 2)])
    (row,) = parse_classes(answer["scores"])
    assert [(top_class.index, top_class.label) for top_class in row] == [(1, "green"), (2, "blue")]
    assert [top_class.value for top_class in row] == pytest.approx([0.7, 0.2])

"""Models that generate texts on CPUs: equal to transformers' completions, and strict about requests."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ExportError, ModelBuildError, ParityError
from model_build.exporters.generating.framework import longest
from model_build.recipes.text_generation import _compare, _completion
from model_build.repository.config import read_config
from model_build.store.archive import unpack
from tests.model_build.frameworks import change_json, framework_of
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny_language_models import POSITIONS, write_encoder_decoder, write_language_model
from tritonstack.base.paths import find_project
from tritonstack.client.streaming import read_responses, text_of
from tritonstack.facts.container_variables import INFERENCE_TYPE, ContainerOptions, container_variables
from tritonstack.triton import TritonResponse, TritonServer, find_installation

TEXTS = ["hello world", "Zwei Männer in 東京", "this is"]
RECIPE = {"kind": "text-generation", "max_tokens": 40}
REASON = {"num_beams": "Streaming matters more than beams."}
TO_TEXT = {"kind": "text-to-text", "max_tokens": 40, "overrides": REASON}
SETTINGS: dict[str, Any] = {
    "num_beams": 4,
    "no_repeat_ngram_size": 2,
    "min_length": 20,
    "forced_bos_token_id": 7,
    "forced_eos_token_id": 0,
    "bad_words_ids": [[5], [0]],
    "suppress_tokens": [9],
    "repetition_penalty": 1.3,
}
"""As those of models for summaries and translations."""


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_graph_chooses_the_tokens_of_transformers(tmp_path, kind):
    model = framework_of(write_language_model(tmp_path / "weights", kind=kind), **RECIPE)
    graph = model.export(tmp_path / "graph")
    completions = [_completion(model, text) for text in (*TEXTS, "hello " * 20)]
    assert len(completions[0].tokens) == 32
    _compare(model, graph, completions)
    generator = model.generator(graph.file)
    assert generator.greedy_tokens("", 4) == model.complete([0], 4)
    wrong = completions[0]
    wrong.tokens[3] += 1
    with pytest.raises(ParityError, match="token 4 of 32"):
        _compare(model, graph, [wrong])


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "settings"), [("t5", {}), ("marian", SETTINGS)])
def test_the_graphs_choose_the_tokens_of_transformers(tmp_path, kind, settings):
    """Without the settings, the tiny Marian repeats one token."""
    model = framework_of(write_encoder_decoder(tmp_path / "weights", kind=kind, **settings), **TO_TEXT)
    graph = model.export(tmp_path / "graph")
    completions = [_completion(model, text) for text in (*TEXTS[:2], "a", "hello " * 20)]
    assert len({tuple(completion.tokens) for completion in completions}) == len(completions)
    _compare(model, graph, completions)


@pytest.mark.parametrize(
    ("name", "value"), [("begin_suppress_tokens", [1]), ("bad_words_ids", [[1, 2]]), ("num_beams", 4)]
)
def test_settings_that_change_completions_are_rejected(tmp_path, name, value):
    folder = change_json(write_language_model(tmp_path) / "generation_config.json", **{name: value})
    with pytest.raises(ExportError, match=f"generation_config.json: {name}"):
        framework_of(folder, **RECIPE)


def test_lengths_are_those_of_the_model(tmp_path):
    folder = write_language_model(tmp_path)
    with pytest.raises(ExportError, match=r"65, .* 64 positions"):
        framework_of(folder, **RECIPE, max_length=POSITIONS + 1)
    model = framework_of(folder, **RECIPE)
    assert (model.options.max_length, model.options.max_tokens) == (64, 40)
    with pytest.raises(ExportError, match="1 to 63"):
        _completion(model, "hello world " * 32)
    with pytest.raises(ExportError, match="more than 32"):
        longest(None, positions=32)


MISTRAL = partial(write_language_model, kind="mistral", sliding_window=16)


def bart(**settings: Any) -> Callable[[Path], Path]:
    return partial(write_encoder_decoder, kind="bart", **settings)


@pytest.mark.parametrize(
    ("recipe", "save", "message"),
    [
        (RECIPE, MISTRAL, "mistral"),
        ({"kind": "text-generation"}, bart(), "bart is an encoder-decoder"),
        (TO_TEXT, write_language_model, "gpt2"),
        ({"kind": "text-to-text"}, bart(num_beams=4), "num_beams is 4"),
        (TO_TEXT, bart(encoder_no_repeat_ngram_size=2), "encoder_no_repeat_ngram_size is 2"),
        ({**TO_TEXT, "max_length": 100}, bart(), "100, .* 64 positions"),
    ],
)
def test_what_cannot_be_served_is_rejected(tmp_path, folders, recipe, save, message):
    save(tmp_path / "weights")
    model = write_supplied(tmp_path, recipe, test_inputs=TEXTS, batching={})
    with pytest.raises(ModelBuildError, match=message):
        build_model(model=model, folders=folders)
    assert not list(folders.artifacts.rglob("model.tar.gz"))


PROJECT = find_project(Path(__file__))


def build(folder: Path, recipe: dict[str, Any]) -> Path:
    """Build the model of `weights`; return its unpacked repository."""
    model = write_supplied(folder, recipe, test_inputs=TEXTS, batching={})
    folders = BuildFolders(folder / "artifacts", PROJECT.cache_dir, PROJECT.server_dir)
    artifact = build_model(model=model, folders=folders)
    unpack(artifact.artifact_dir / "model.tar.gz", folder / "repository", limit_bytes=1 << 30)
    assert artifact.manifest.generation is not None
    assert artifact.manifest.generation.compared == len(TEXTS)
    return folder / "repository"


@contextmanager
def served(repository: Path, state: Path) -> Iterator[TritonServer]:
    options = ContainerOptions("tiny", generates=True)
    with TritonServer.start(
        installation=find_installation(home=PROJECT.server_dir),
        model_root=repository,
        environment=container_variables({INFERENCE_TYPE: "generate_stream"}, options),
        state_dir=state,
    ) as server:
        server.wait_ready(timeout_s=60)
        yield server


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    write_language_model(folder / "weights")
    return build(folder, RECIPE)


@pytest.fixture(scope="module")
def server(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    with served(repository, tmp_path_factory.mktemp("state")) as started:
        yield started


def ask(
    server: TritonServer, text: Any, inputs: dict[str, Any] | None = None, **parameters: Any
) -> TritonResponse:
    body = {"text_input": text, "exclude_input_in_output": True, **(inputs or {}), "parameters": parameters}
    return server.request("POST", "/invocations", body=json.dumps(body).encode())


def responses(reply: TritonResponse) -> list[Any]:
    assert reply.status == 200, reply.body
    return list(read_responses([reply.body], content_type=reply.headers["content-type"]))


def completion(server: TritonServer, text: str, **parameters: Any) -> str:
    return "".join(text_of(response) for response in responses(ask(server, text, **parameters)))


@pytest.mark.soak
def test_outputs_of_an_encoder_decoder_are_served_whole_and_streamed(tmp_path):
    write_encoder_decoder(tmp_path / "weights", kind="bart", **SETTINGS)
    repository = build(tmp_path, TO_TEXT)
    with served(repository, tmp_path / "state") as server:
        whole, pieces = (
            responses(ask(server, TEXTS[0], {"exclude_input_in_output": False}, max_tokens=30, stream=stream))
            for stream in (False, True)
        )
        assert len(whole) == 1 < len(pieces)
        assert text_of(whole[0]) == "".join(map(text_of, pieces))
        assert TEXTS[0] not in text_of(whole[0])
        assert pieces[-1]["num_output_tokens"] == 30
        assert completion(server, TEXTS[1], max_tokens=30) != text_of(whole[0])
        reply = ask(server, "hello " * 100)
        assert (reply.status, f"fewer than {POSITIONS + 1}" in reply.body.decode()) == (400, True)


@pytest.mark.e2e
def test_only_the_text_is_required(repository):
    config = read_config(repository / "tiny/config.pbtxt")
    assert config.model_transaction_policy.decoupled
    assert [tensor.name for tensor in config.input if not tensor.optional] == ["text_input"]


@pytest.mark.e2e
def test_pieces_are_the_whole_completion(server):
    whole = responses(ask(server, "hello", max_tokens=20))
    streamed = responses(ask(server, "hello", max_tokens=20, stream=True))
    assert len(whole) == 1 < len(streamed)
    assert "".join(map(text_of, streamed)) == text_of(whole[0])
    assert [response["finish_reason"] for response in streamed[-2:]] == ["", "length"]
    assert streamed[-1]["num_output_tokens"] == 20
    included = responses(ask(server, "hello", {"exclude_input_in_output": False}, max_tokens=20, stream=True))
    assert "".join(map(text_of, included)) == "hello" + text_of(whole[0])


@pytest.mark.e2e
def test_parameters_have_their_effect(server):
    greedy = completion(server, "hello", max_tokens=12)
    assert completion(server, "hello", max_tokens=12, temperature=1.5, top_k=1) == greedy
    drawn = [completion(server, "hello", max_tokens=12, temperature=1.5, seed=3) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({completion(server, "hello", max_tokens=12, temperature=5.0) for _ in range(4)}) > 1
    stop = greedy[3:5]
    assert completion(server, "hello", max_tokens=12, stop=stop) == greedy[: greedy.index(stop)]
    further = {"sampling_parameters": json.dumps({"stop": [stop], "max_tokens": 12})}
    (response,) = responses(ask(server, "hello", further))
    assert (text_of(response), response["finish_reason"]) == (greedy[: greedy.index(stop)], "stop")


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("text", "inputs", "parameters", "value"),
    [
        ("hello " * 100, {}, {}, "fewer than 64"),
        ("hello", {}, {"max_tokens": 41}, "1 to 40, got 41"),
        ("hello", {}, {"tokens": 4}, "'tokens'"),
        ("hello", {"sampling_parameters": "no"}, {}, "sampling_parameters: invalid JSON"),
        ("hello", {"sampling_parameters": "[1]"}, {}, "expected a JSON object"),
        (["a", "b"], {}, {}, "convert"),
    ],
)
def test_invalid_requests_are_rejected(server, text, inputs, parameters, value):
    reply = ask(server, text, inputs, **parameters)
    assert reply.status == 400
    assert value in reply.body.decode()


@pytest.mark.e2e
def test_concurrent_requests_do_not_disturb_each_other(server):
    texts = [f"hello {number}" for number in range(6)]
    alone = [completion(server, text, max_tokens=30) for text in texts]
    with ThreadPoolExecutor(12) as pool:
        good = pool.map(lambda text: completion(server, text, max_tokens=30, stream=True), texts)
        bad = pool.map(lambda _: ask(server, "hello " * 100).status, texts)
        assert list(good) == alone
        assert set(bad) == {400}


@pytest.mark.e2e
def test_a_caller_that_leaves_ends_the_completion(server):
    async def leave() -> bytes:
        body = {"text_input": "hello", "parameters": {"stream": True, "max_tokens": 40}}
        stream = await server.stream("POST", "/invocations", body=json.dumps(body).encode())
        try:
            return await anext(aiter(stream.parts()))
        finally:
            stream.close()

    assert b"text_output" in asyncio.run(leave())
    assert completion(server, "hello", max_tokens=3)

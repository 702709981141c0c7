"""Language models on CPUs: equal to transformers' greedy completions, streamed, and strict about requests."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ExportError, ParityError
from model_build.exporters.generating.causal import CausalFramework
from model_build.exporters.generating.settings import longest
from model_build.recipes.language.text_generation import _compare, _completion
from model_build.repository.config import read_config
from model_build.sources import fetch_source
from model_build.store.archive import unpack
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny_language_models import POSITIONS, write_language_model
from tritonstack.base.paths import find_project
from tritonstack.base.yaml import Document
from tritonstack.client.streaming import read_responses, text_of
from tritonstack.records.manifests import Manifest
from tritonstack.reference.container_variables import INFERENCE_TYPE, ContainerOptions, container_variables
from tritonstack.runtime import TritonResponse, TritonServer, find_installation
from tritonstack.spec.models.model import ModelSpec
from tritonstack.spec.models.model_fields import UNTRUSTED
from tritonstack.spec.models.recipes import TextGenerationRecipe

TEXTS = ["hello world", "Zwei Männer in 東京", "this is"]
RECIPE = {"kind": "text-generation", "max_tokens": 40}


def language_model(
    folder: Path, *, recipe: dict[str, Any] | None = None, **model: Any
) -> Document[ModelSpec]:
    write_language_model(folder / "weights", **model)
    return write_supplied(folder, {**RECIPE, **(recipe or {})}, test_inputs=TEXTS, batching={})


def framework(folder: Path, *, max_length: int | None = None, **model: Any) -> CausalFramework:
    write_language_model(folder / "weights", **model)
    return load(folder, max_length)


def load(folder: Path, max_length: int | None = None) -> CausalFramework:
    source = fetch_source("file://weights", model_folder=folder, cache_dir=folder)
    recipe = TextGenerationRecipe(kind="text-generation", max_tokens=40, max_length=max_length)
    return CausalFramework(source=source, recipe=recipe, trust=UNTRUSTED, allow_unused={})


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_the_graph_chooses_the_tokens_of_transformers(tmp_path, kind):
    model = framework(tmp_path, kind=kind)
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


def test_models_with_other_attention_are_rejected(tmp_path):
    with pytest.raises(ExportError, match="mistral"):
        framework(tmp_path, kind="mistral", sliding_window=16)


@pytest.mark.parametrize(
    ("name", "value"), [("begin_suppress_tokens", [1]), ("bad_words_ids", [[1, 2]]), ("num_beams", 4)]
)
def test_settings_that_change_completions_are_rejected(tmp_path, name, value):
    framework(tmp_path)
    file = tmp_path / "weights/generation_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))
    with pytest.raises(ExportError, match=f"generation_config.json: {name}"):
        load(tmp_path)


def test_lengths_are_those_of_the_model(tmp_path):
    with pytest.raises(ExportError, match=r"65, .* 64 positions"):
        framework(tmp_path / "a", max_length=POSITIONS + 1)
    model = framework(tmp_path / "b")
    assert (model.options.max_length, model.options.max_tokens) == (64, 40)
    with pytest.raises(ExportError, match="1 to 63"):
        _completion(model, "hello world " * 32)
    with pytest.raises(ExportError, match="more than 32"):
        longest(None, positions=32)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("built")
    project = find_project(Path(__file__))
    folders = BuildFolders(folder / "artifacts", project.cache_dir, project.server_dir)
    artifact = build_model(model=language_model(folder), folders=folders)
    unpack(artifact.artifact_dir / "model.tar.gz", folder / "repository", limit_bytes=1 << 30)
    return folder / "repository", artifact.manifest


@pytest.fixture(scope="module")
def server(built: tuple[Path, Manifest], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    variables = container_variables(
        {INFERENCE_TYPE: "generate_stream"}, ContainerOptions("tiny", generates=True)
    )
    with TritonServer.start(
        installation=find_installation(home=find_project(Path(__file__)).server_dir),
        model_root=built[0],
        environment=variables,
        state_dir=tmp_path_factory.mktemp("state"),
    ) as started:
        started.wait_ready(timeout_s=60)
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


@pytest.mark.e2e
def test_the_build_compares_completions(built):
    repository, manifest = built
    assert manifest.generation is not None
    assert manifest.generation.compared == len(TEXTS)
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

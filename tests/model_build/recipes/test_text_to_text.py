"""Encoder-decoder models on CPUs: equal to transformers' greedy outputs, and never the input."""

import json
from pathlib import Path
from typing import Any

import pytest

from model_build.build import BuildFolders, build_model
from model_build.errors import ModelBuildError
from model_build.exporters.generating.encoder_decoder import EncoderDecoderFramework
from model_build.recipes.language.text_generation import _compare, _completion
from model_build.sources import fetch_source
from model_build.store.archive import unpack
from tests.model_build.supplied_models import write_supplied
from tests.model_build.tiny_language_models import POSITIONS, write_encoder_decoder, write_language_model
from tritonstack.base.paths import find_project
from tritonstack.client.streaming import read_responses, text_of
from tritonstack.reference.container_variables import INFERENCE_TYPE, ContainerOptions, container_variables
from tritonstack.runtime import TritonServer, find_installation
from tritonstack.spec.models.model_fields import UNTRUSTED
from tritonstack.spec.models.recipes import TextToTextRecipe

TEXTS = ["hello world", "Zwei Männer in 東京"]
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
RECIPE = {
    "kind": "text-to-text",
    "max_tokens": 40,
    "overrides": {"num_beams": "Streaming matters more than beams."},
}


def framework(folder: Path, recipe: dict[str, Any] | None = None) -> EncoderDecoderFramework:
    source = fetch_source("file://weights", model_folder=folder, cache_dir=folder)
    return EncoderDecoderFramework(
        source=source,
        recipe=TextToTextRecipe.model_validate(recipe or RECIPE),
        trust=UNTRUSTED,
        allow_unused={},
    )


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["t5", "marian"])
def test_the_graphs_choose_the_tokens_of_transformers(tmp_path, kind):
    # Without the settings, the tiny Marian repeats one token.
    write_encoder_decoder(tmp_path / "weights", kind=kind, **(SETTINGS if kind == "marian" else {}))
    model = framework(tmp_path)
    graph = model.export(tmp_path / "graph")
    completions = [_completion(model, text) for text in (*TEXTS, "a", "hello " * 20)]
    assert len({tuple(completion.tokens) for completion in completions}) == len(completions)
    _compare(model, graph, completions)


@pytest.mark.soak
def test_outputs_are_served_whole_and_streamed(tmp_path):
    write_encoder_decoder(tmp_path / "weights", kind="bart", **SETTINGS)
    model = write_supplied(tmp_path, RECIPE, test_inputs=TEXTS, batching={})
    project = find_project(Path(__file__))
    folders = BuildFolders(tmp_path / "artifacts", project.cache_dir, project.server_dir)
    artifact = build_model(model=model, folders=folders)
    assert artifact.manifest.generation is not None
    assert artifact.manifest.generation.compared == len(TEXTS)
    unpack(artifact.artifact_dir / "model.tar.gz", tmp_path / "repository", limit_bytes=1 << 30)
    with TritonServer.start(
        installation=find_installation(home=project.server_dir),
        model_root=tmp_path / "repository",
        environment=container_variables(
            {INFERENCE_TYPE: "generate_stream"}, ContainerOptions("tiny", generates=True)
        ),
        state_dir=tmp_path / "state",
    ) as server:
        server.wait_ready(timeout_s=60)

        def ask(text: str, **parameters: Any) -> tuple[int, str, list[Any]]:
            body = json.dumps({"text_input": text, "parameters": parameters}).encode()
            reply = server.request("POST", "/invocations", body=body)
            if reply.status != 200:
                return reply.status, reply.body.decode(), []
            responses = list(read_responses([reply.body], content_type=reply.headers["content-type"]))
            return reply.status, "".join(map(text_of, responses)), responses

        _, whole, responses = ask(TEXTS[0], max_tokens=30)
        _, streamed, pieces = ask(TEXTS[0], max_tokens=30, stream=True)
        assert len(responses) == 1 < len(pieces)
        assert whole == streamed
        assert TEXTS[0] not in whole
        assert pieces[-1]["num_output_tokens"] == 30
        assert ask(TEXTS[1], max_tokens=30)[1] != whole
        status, message, _ = ask("hello " * 100)
        assert (status, f"fewer than {POSITIONS + 1}" in message) == (400, True)


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ({"kind": "text-to-text"}, {"num_beams": 4}, "num_beams is 4"),
        (RECIPE, {"encoder_no_repeat_ngram_size": 2}, "encoder_no_repeat_ngram_size is 2"),
        ({**RECIPE, "max_length": 100}, {}, "100, .* 64 positions"),
        ({"kind": "text-generation"}, {}, "bart is an encoder-decoder"),
        (RECIPE, None, "gpt2"),
    ],
)
def test_what_cannot_be_served_is_rejected(tmp_path, folders, recipe, settings, message):
    if settings is None:
        write_language_model(tmp_path / "weights")
    else:
        write_encoder_decoder(tmp_path / "weights", kind="bart", **settings)
    model = write_supplied(tmp_path, recipe, test_inputs=TEXTS, batching={})
    with pytest.raises(ModelBuildError, match=message):
        build_model(model=model, folders=folders)
    assert not list(folders.artifacts.rglob("model.tar.gz"))

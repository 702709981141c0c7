"""How tokens are chosen, and when their text is certain."""

import re

import numpy as np
import pytest
import torch
from transformers.generation import logits_process

from model_build.served import generation
from model_build.served.generation import (
    Options,
    RequestError,
    Sampling,
    choose,
    read_sampling,
    restrict,
)
from tests.model_build.tiny_language_models import END, tokenizer

OPTIONS = Options(max_length=64, max_tokens=8, end_tokens=(0,), begin_token=0, repetition_penalty=1.5)


def test_defaults_are_greedy_with_the_models_penalty():
    assert read_sampling({}, OPTIONS) == Sampling(max_tokens=8, repetition_penalty=1.5)


def test_parameters_as_triton_passes_them():
    parameters = {"max_tokens": 3, "temperature": 1, "top_k": 2.0, "seed": 4, "stop": '["a", "b"]'}
    sampling = read_sampling({**parameters, "ignore_eos": True}, OPTIONS)
    assert (sampling.temperature, sampling.top_k, sampling.stop) == (1.0, 2, ("a", "b"))
    assert read_sampling({"stop": "a"}, OPTIONS).stop == ("a",)
    assert read_sampling({"stop": ["a", "[b"]}, OPTIONS).stop == ("a", "[b")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_token": 3}, "'max_token'; known: max_tokens"),
        ({"max_tokens": 9}, "from 1 to 8, got 9"),
        ({"max_tokens": 0}, "got 0"),
        ({"max_tokens": 2.5}, "got 2.5"),
        ({"max_tokens": True}, "got True"),
        ({"max_tokens": "3"}, "got '3'"),
        ({"temperature": -1}, "from 0 to 100, got -1"),
        ({"temperature": float("nan")}, "got nan"),
        ({"top_k": float("inf")}, "got inf"),
        ({"top_p": 0}, "top_p: "),
        ({"seed": -1}, "seed: "),
        ({"seed": 10**400}, "seed: "),
        ({"ignore_eos": 1}, "ignore_eos: "),
        ({"stop": ""}, "1 to 256"),
        ({"stop": "[1]"}, "stop: "),
        ({"stop": "["}, "as JSON"),
        ({"stop": 3}, "stop: "),
        ({"stop": ["x"] * 17}, "16 texts, got 17"),
        ({"repetition_penalty": 0}, "repetition_penalty: "),
    ],
)
def test_invalid_parameters(parameters, words):
    with pytest.raises(RequestError, match=re.escape(words)):
        read_sampling(parameters, OPTIONS)


@pytest.mark.parametrize("penalty", [1.0, 1.7])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.4), (12, 0.7), (1, 0.01)])
def test_tokens_are_drawn_from_the_distribution_of_transformers(penalty, top_k, top_p):
    logits = np.random.default_rng(7).normal(0, 2, 40).astype(np.float32)
    tokens = [int(logits.argmax()), 3, 3]
    scores = torch.tensor(logits)[None]
    if penalty != 1.0:
        scores = logits_process.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([tokens]), scores)
    scores = logits_process.TemperatureLogitsWarper(0.8)(None, scores)
    if top_k:
        scores = logits_process.TopKLogitsWarper(top_k)(None, scores)
    scores = logits_process.TopPLogitsWarper(top_p)(None, scores)
    shares = torch.softmax(scores[0].double(), 0).numpy()
    sampling = Sampling(8, 0.8, top_k, top_p, repetition_penalty=penalty)
    random = np.random.default_rng(1)
    drawn = np.bincount([choose(logits, tokens, sampling, random) for _ in range(4000)], minlength=40) / 4000
    assert not drawn[shares == 0].any()
    assert np.abs(drawn - shares).max() < 0.03


@pytest.mark.parametrize("size", [1, 2, 3])
def test_tokens_are_excluded_as_in_transformers(size):
    logits = np.random.default_rng(3).normal(0, 2, 12).astype(np.float32)
    options = Options(99, 8, (0,), None, 1.0, banned_tokens=(2, 5), unrepeated=size, min_length=8)
    rules = [
        logits_process.NoRepeatNGramLogitsProcessor(size),
        logits_process.NoBadWordsLogitsProcessor([[2]], eos_token_id=torch.tensor([0])),
        logits_process.MinLengthLogitsProcessor(8, 0),
        logits_process.SuppressTokensLogitsProcessor([5]),
    ]
    for tokens in ([1], [3, 4, 3], [6, 7, 8, 6, 7, 9, 6, 7], [7, 7, 7, 7]):
        scores = torch.tensor(logits)[None]
        for rule in rules:
            scores = rule(torch.tensor([tokens]), scores)
        restricted = restrict(logits, tokens, options, is_last=False)
        np.testing.assert_array_equal(restricted, scores[0].numpy())


def test_first_and_last_tokens_are_forced():
    options = Options(99, 8, (0,), None, 1.0, start_token=1, first_tokens=(3,), last_tokens=(0,))
    logits = np.arange(9, dtype=np.float32)
    assert restrict(logits, [1], options, is_last=False).argmax() == 3
    assert restrict(logits, [1, 3], options, is_last=False) is logits
    assert restrict(logits, [1, 3], options, is_last=True).argmax() == 0


def text_of(tokens: list[int], *stops: str) -> tuple[list[str], bool]:
    text = generation._Text(tokenizer(), tokenizer().encode("hello").ids, stops)
    pieces = []
    for token in tokens:
        pieces.append(text.add(token))
        if text.stopped:
            return pieces, True
    return [*pieces, text.rest()], False


def test_pieces_are_the_whole_text():
    text = " wörld, 東京 🚀 this is fine"
    pieces, stopped = text_of(tokenizer().encode(text).ids)
    assert "".join(pieces) == text
    assert not stopped
    assert not any("\ufffd" in piece for piece in pieces)


def test_incomplete_characters_are_given_at_the_end():
    tokens = tokenizer().encode(" 東").ids[:-1]
    assert "".join(text_of(tokens)[0]) == " \ufffd"


def test_stops_end_the_text_before_them_even_across_tokens():
    tokens = tokenizer().encode(" hello world, this is").ids
    pieces, stopped = text_of(tokens, "d, t", "never")
    assert ("".join(pieces), stopped) == (" hello worl", True)
    pieces, stopped = text_of(tokens, "isx")
    assert ("".join(pieces), stopped) == (" hello world, this is", False)


def test_special_tokens_have_no_text():
    assert "".join(text_of([tokenizer().token_to_id(END)])[0]) == ""

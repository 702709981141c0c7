"""Write a completion token by token: choose tokens, and turn them into text. It needs no Triton.

text_generator.py next to this file serves it; the build compares it with the framework.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

INPUT, LOGITS = "input_ids", "logits"
PAST, PRESENT, CROSS = "past.", "present.", "cross."
GRAPH, ENCODER = "model.onnx", "encoder"
"""The graph of a step, and the folder with that of an encoder."""
CONTEXT = 8
"""Tokens before a new one that decide how it is written, such as the space before a word."""
INCOMPLETE = "\ufffd"
"""The decoder's sign for bytes that are no whole character yet."""
MOST_STOPS, LONGEST_STOP = 16, 256


class RequestError(ValueError):
    """A request that cannot be answered; the message is for the caller."""


@dataclass(frozen=True)
class Options:
    """What generation.json says of the model."""

    max_length: int
    """Most tokens of a prompt with its completion; of an encoder's input."""
    max_tokens: int
    """Most new tokens of a request."""
    end_tokens: tuple[int, ...]
    """Tokens that end a completion."""
    begin_token: int | None
    """The token of an empty prompt."""
    repetition_penalty: float
    """The default of requests."""
    start_token: int | None = None
    """The token before the output of an encoder-decoder model; None for a causal model."""
    first_tokens: tuple[int, ...] = ()
    """The choice for a token that follows a single one; empty if it is free."""
    last_tokens: tuple[int, ...] = ()
    """The choice for the last token that `max_tokens` allows; empty if it is free."""
    banned_tokens: tuple[int, ...] = ()
    """Tokens that are never chosen."""
    unrepeated: int = 0
    """No sequence of this many tokens occurs twice; 0 for no such rule."""
    min_length: int = 0
    """The text does not end before it has this many tokens."""

    @classmethod
    def read(cls, text: str) -> Options:
        """Read the file's text."""
        found: dict[str, Any] = json.loads(text)
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return cls(**(found | lists))

    def before(self, prompt: Sequence[int]) -> Sequence[int]:
        """Return the tokens that an output follows: the prompt, unless an encoder reads that."""
        return prompt if self.start_token is None else (self.start_token,)

    def room_for(self, prompt: Sequence[int]) -> int:
        """Return the most tokens that can follow a prompt."""
        return self.max_length - len(prompt) if self.start_token is None else self.max_tokens


@dataclass(frozen=True)
class Sampling:
    """How a request wants its tokens chosen."""

    max_tokens: int
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    repetition_penalty: float = 1.0


class Piece(NamedTuple):
    """New text of a completion."""

    text: str
    tokens: int
    """Tokens so far."""
    finish_reason: str
    """Empty, or why the completion ends: stop, or length."""


def read_sampling(given: Mapping[str, Any], options: Options) -> Sampling:
    """Check the parameters of a request."""
    known = [field.name for field in fields(Sampling)]
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise RequestError(f"unknown parameter {unknown[0]!r}; known: {', '.join(known)}")
    most = options.max_tokens
    return Sampling(
        max_tokens=_number(given, "max_tokens", int, most, 1, most),
        temperature=_number(given, "temperature", float, 0.0, 0.0, 100.0),
        top_k=_number(given, "top_k", int, 0, 0, 1 << 31),
        top_p=_number(given, "top_p", float, 1.0, 1e-6, 1.0),
        seed=_number(given, "seed", int, 0, 0, 1 << 62) if "seed" in given else None,
        stop=_stops(given.get("stop", ())),
        ignore_eos=_flag(given, "ignore_eos"),
        repetition_penalty=_number(
            given, "repetition_penalty", float, options.repetition_penalty, 0.01, 100.0
        ),
    )


class Generator:
    """A graph with its tokenizer. Threads may share it."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        tokenizer: Tokenizer,
        options: Options,
        encoder: onnxruntime.InferenceSession | None = None,
    ) -> None:
        self.options = options
        self._session = session
        self._tokenizer = tokenizer
        self._encoder = encoder
        self._past = {
            tensor.name: tuple(size if isinstance(size, int) else 0 for size in tensor.shape[1:])
            for tensor in session.get_inputs()
            if tensor.name.startswith(PAST)
        }
        self._cross = [tensor.name for tensor in encoder.get_outputs()] if encoder else []
        self._outputs = [LOGITS, *(PRESENT + name.removeprefix(PAST) for name in self._past)]

    @classmethod
    def load(
        cls, folder: Path, tokenizer: Tokenizer, options: Options, settings: onnxruntime.SessionOptions
    ) -> Generator:
        """Load the graphs of a folder."""
        files = (folder / GRAPH, folder / ENCODER / GRAPH)
        session, encoder = (
            onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
            if file.exists()
            else None
            for file in files
        )
        return cls(session, tokenizer, options, encoder)

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of a prompt; raise if they leave no room for a completion."""
        ids = list(self._tokenizer.encode(text).ids)
        if not ids and self.options.begin_token is None:
            raise RequestError("text_input has no tokens, and the model has none to begin with")
        ids = ids or [self.options.begin_token]  # type: ignore[list-item]
        most = self.options.max_length + (1 if self._encoder else 0)
        if len(ids) >= most:
            raise RequestError(f"expected fewer than {most} tokens in text_input, got {len(ids)}")
        return ids

    def write(self, prompt: Sequence[int], sampling: Sampling) -> Iterator[Piece]:
        """Yield the completion's text as soon as it is certain; the last piece has the reason of its end."""
        text = _Text(self._tokenizer, self.options.before(prompt)[-CONTEXT:], sampling.stop)
        most = min(sampling.max_tokens, self.options.room_for(prompt))
        for count, token in enumerate(self.tokens(prompt, sampling), start=1):
            ends = token in self.options.end_tokens and not sampling.ignore_eos
            new = "" if ends else text.add(token)
            is_last = ends or text.stopped or count == most
            if is_last and not text.stopped:
                new += text.rest()
            reason = ("stop" if ends or text.stopped else "length") if is_last else ""
            if new or is_last:
                yield Piece(new, count, reason)
            if is_last:
                return

    def greedy_tokens(self, text: str, most: int) -> list[int]:
        """Return the most likely tokens after a text, with the one that ends it."""
        sampling = read_sampling({"max_tokens": most}, self.options)
        found: list[int] = []
        for token in self.tokens(self.tokens_of(text), sampling):
            found.append(token)
            if token in self.options.end_tokens:
                break
        return found

    def tokens(self, prompt: Sequence[int], sampling: Sampling) -> Iterator[int]:
        """Yield as many tokens as there is room for."""
        random = np.random.default_rng(sampling.seed)
        seen = list(self.options.before(prompt))
        new = list(seen)
        cross, state = self._read(prompt), self._nothing()
        most = min(sampling.max_tokens, self.options.room_for(prompt))
        for count in range(1, most + 1):
            given = {INPUT: _tokens(new), **cross, **state}
            logits, *present = self._session.run_with_ort_values(self._outputs, given)
            state = dict(zip(self._past, present, strict=True))
            is_last = count == most and not sampling.ignore_eos
            scores = restrict(logits.numpy()[0], seen, self.options, is_last=is_last)
            token = choose(scores, seen, sampling, random)
            seen.append(token)
            new = [token]
            yield token

    def _nothing(self) -> dict[str, Any]:
        """Return the keys and values before the first token."""
        return {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros((1, *shape), np.float32))
            for name, shape in self._past.items()
        }

    def _read(self, prompt: Sequence[int]) -> dict[str, Any]:
        """Return the keys and values of an encoder's input."""
        if self._encoder is None:
            return {}
        found = self._encoder.run_with_ort_values(self._cross, {INPUT: _tokens(prompt)})
        return dict(zip(self._cross, found, strict=True))


def restrict(logits: np.ndarray, seen: Sequence[int], options: Options, *, is_last: bool) -> np.ndarray:
    """Exclude the tokens that the model's generation_config.json excludes, as transformers does."""
    forced = options.last_tokens if is_last else ()
    forced = forced or (options.first_tokens if len(seen) == 1 else ())
    if forced:
        only = np.full_like(logits, -np.inf)
        only[list(forced)] = 0.0
        return only
    banned = {*options.banned_tokens, *(options.end_tokens if len(seen) < options.min_length else ())}
    if options.unrepeated:
        banned |= _continuations(seen, options.unrepeated)
    if banned:
        logits = logits.copy()
        logits[list(banned)] = -np.inf
    return logits


def _continuations(seen: Sequence[int], size: int) -> set[int]:
    """Return the tokens with which a sequence of this size would occur again."""
    begin = list(seen[len(seen) + 1 - size :])
    places = range(len(seen) - size + 1)
    return {seen[place + size - 1] for place in places if list(seen[place : place + size - 1]) == begin}


def _tokens(ids: Sequence[int]) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.array([ids], np.int64))


def choose(logits: np.ndarray, seen: Sequence[int], sampling: Sampling, random: np.random.Generator) -> int:
    """Choose the next token, in transformers' order: penalty, temperature, top_k, top_p."""
    if sampling.repetition_penalty != 1.0:
        logits, places = logits.copy(), np.unique(np.array(seen))
        found = logits[places]
        logits[places] = np.where(
            found < 0, found * sampling.repetition_penalty, found / sampling.repetition_penalty
        )
    if sampling.temperature == 0.0 or sampling.top_k == 1:
        return int(logits.argmax())
    scores = logits.astype(np.float64) / sampling.temperature
    order = np.argsort(-scores, kind="stable")
    if sampling.top_k:
        order = order[: sampling.top_k]
    shares = np.exp(scores[order] - scores[order[0]])
    shares /= shares.sum()
    if sampling.top_p < 1.0:
        # The smallest number of tokens that reach top_p together.
        kept = int(np.searchsorted(np.cumsum(shares), sampling.top_p)) + 1
        order, shares = order[:kept], shares[:kept] / shares[:kept].sum()
    return int(order[min(int(np.searchsorted(np.cumsum(shares), random.random(), "right")), len(order) - 1)])


class _Text:
    """The text of the tokens so far, of which some may have to wait for the next ones."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int], stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._ids = list(context)
        self._begin = len(self._decoded())
        self._stops = stops
        self._given = 0
        self._text = ""
        self.stopped = False
        """Whether the text has reached one of the stops."""

    def add(self, token: int) -> str:
        """Return the text that this token makes certain."""
        self._ids.append(token)
        self._text = self._decoded()[self._begin :]
        found = [place for stop in self._stops if (place := self._text.find(stop, self._given)) >= 0]
        if found:
            self.stopped = True
            return self._up_to(min(found))
        return self._up_to(len(self._text) - self._waiting())

    def rest(self) -> str:
        """Return the text that has waited."""
        return self._up_to(len(self._text))

    def _up_to(self, end: int) -> str:
        new = self._text[self._given : end]
        self._given = max(self._given, end)
        return new

    def _waiting(self) -> int:
        """Return the characters at the end that may change, or begin a stop."""
        if self._text.endswith(INCOMPLETE):
            return min(4, len(self._text) - len(self._text.rstrip(INCOMPLETE))) + self._longest_beginning()
        return self._longest_beginning()

    def _longest_beginning(self) -> int:
        """Return the length of the longest beginning of a stop at the end of the text."""
        text = self._text.rstrip(INCOMPLETE)
        return max(
            (size for stop in self._stops for size in range(1, len(stop)) if text.endswith(stop[:size])),
            default=0,
        )

    def _decoded(self) -> str:
        return str(self._tokenizer.decode(self._ids, skip_special_tokens=True))


def _number(given: Mapping[str, Any], name: str, kind: type, default: Any, least: Any, most: Any) -> Any:
    value = given.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most or (kind is int and not float(value).is_integer()):
        what = "an integer" if kind is int else "a number"
        raise RequestError(f"{name}: expected {what} from {least:g} to {most:g}, got {value!r}")
    return kind(value)


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise RequestError(f"{name}: expected true or false, got {value!r}")
    return value


def _stops(value: Any) -> tuple[str, ...]:
    """Read one text, or a list; a request parameter has a list as JSON, because it cannot be one."""
    if isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            raise RequestError(f"stop: expected a text, or a list of texts as JSON, got {value!r}") from None
    stops = (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else (None,)
    )
    if not all(isinstance(stop, str) and 0 < len(stop) <= LONGEST_STOP for stop in stops):
        raise RequestError(f"stop: expected texts of 1 to {LONGEST_STOP} characters, got {value!r}")
    if len(stops) > MOST_STOPS:
        raise RequestError(f"stop: expected at most {MOST_STOPS} texts, got {len(stops)}")
    return stops

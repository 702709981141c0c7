"""Compute expected answers with the user's reference function, in a separate process.

The function's imports stay out of the build. Run as a program, this file is the child process: it reads
requests from an .npz file, calls the function per request, and writes the answers to another file. A function
with a parameter `source` gets the folder of the fetched source, for example of a pretrained model.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # the child imports no other module of this package
Arrays = Mapping[str, Array]
WITHIN_S = 1800.0
FAILED = 3
"""Exit code of the child if the function itself failed; the last line gives the reason."""
_SEPARATOR, _OF_BYTES, _END = "/", "=", "."
"""What follows the number in the name of an array, of texts or numbers and of bytes; the end of bytes."""
_KEY = re.compile(f"([0-9]+)([{_SEPARATOR}{_OF_BYTES}])(.*)", re.DOTALL)
ONE, SEVERAL = "one", "several"
SOURCE = "source"
"""Parameter of a function that reads the source; its value is a pathlib.Path."""


def ask_reference(
    folder: Path,
    entry: str,
    requests: Sequence[Arrays],
    *,
    source: Path | None = None,
    several: bool = False,
) -> list[list[dict[str, Array]]]:
    """Call `file.py:function` in `folder` for each request; return its responses as named arrays.

    `source` is the folder of the fetched source; None if the model has no source. With `several`, the
    function returns a list of responses, or is a generator; else it returns one.
    """
    from model_build.errors import UserCodeError  # noqa: PLC0415 - the other end needs NumPy alone

    file, _, function = entry.partition(":")
    with tempfile.TemporaryDirectory(prefix="tritonstack-reference-") as temporary:
        requests_file, answered = Path(temporary) / "asked.npz", Path(temporary) / "answered.npz"
        _save(requests_file, requests)
        command = [sys.executable, __file__, str(folder / file), function, str(requests_file), str(answered)]
        command += [str(source.absolute()) if source else "", SEVERAL if several else ONE]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=WITHIN_S, cwd=folder
            )
        except subprocess.TimeoutExpired as error:
            raise UserCodeError(
                f"{entry} timed out after {WITHIN_S / 60:.0f} minutes",
                remedy="make the function faster, or use fewer or smaller test inputs",
            ) from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            reason = lines[-1] if done.returncode == FAILED else "\n".join(lines[-20:])
            raise UserCodeError(
                f"{entry} failed: {reason}",
                remedy="the function takes named arrays and returns a dictionary of named arrays"
                + (" per response, in a list" if several else ""),
            )
        answers = iter(_load(answered))
        counts = np.load(answered.with_suffix(".counts.npy"), allow_pickle=False)
        return [list(itertools.islice(answers, int(count))) for count in counts]


def _save(file: Path, parts: Sequence[Arrays]) -> None:
    """Save texts and bytes as fixed-width strings, never as Python objects, which need pickle."""
    arrays = {}
    for number, part in enumerate(parts):
        for name, array in part.items():
            separator, saved = _SEPARATOR, array
            if array.dtype == np.object_ and any(isinstance(item, bytes) for item in array.flat):
                separator, saved = _OF_BYTES, _as_texts(array)
            elif array.dtype == np.object_:
                saved = array.astype(np.str_)
            arrays[f"{number}{separator}{name}"] = saved
    np.savez(file, allow_pickle=False, **{"count": np.array(len(parts)), **arrays})


def _as_texts(array: Array) -> Array:
    """Return bytes as texts of one character per byte, and one at the end: NumPy removes final zeros."""
    texts = [
        (item if isinstance(item, bytes) else str(item).encode()).decode("latin-1") + _END
        for item in array.flat
    ]
    return np.array(texts, dtype=np.str_).reshape(array.shape)


def _as_bytes(array: Array) -> Array:
    values = np.empty(array.size, dtype=np.object_)
    values[:] = [str(item).removesuffix(_END).encode("latin-1") for item in array.flat]
    return values.reshape(array.shape)


def _load(file: Path) -> list[dict[str, Array]]:
    with np.load(file, allow_pickle=False) as saved:
        parts: list[dict[str, Array]] = [{} for _ in range(int(saved["count"]))]
        for key in saved.files:
            match = _KEY.fullmatch(key)
            if match is not None:
                number, separator, name = match.groups()
                array = _as_bytes(saved[key]) if separator == _OF_BYTES else saved[key]
                parts[int(number)][name] = array.astype(np.object_) if array.dtype.kind in "US" else array
    return parts


def _main(file: str, function: str, requests_file: str, answered: str, source: str, number: str) -> int:
    """Run as the child process."""
    spec = importlib.util.spec_from_file_location("tritonstack_reference", file)
    if spec is None or spec.loader is None:
        return FAILED
    module = importlib.util.module_from_spec(spec)
    sys.path[0] = str(Path(file).parent)
    try:
        spec.loader.exec_module(module)
        call = getattr(module, function)
        keywords = _keywords(call, source)
        responses_of = _responses if number == SEVERAL else _response
        answers = [responses_of(call(request, **keywords)) for request in _load(Path(requests_file))]
    except Exception as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
        ]
        place = f"{Path(file).name}:{lines[-1]}: " if lines else ""
        print(f"{place}{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return FAILED
    _save(Path(answered), list(itertools.chain.from_iterable(answers)))
    np.save(Path(answered).with_suffix(".counts.npy"), [len(responses) for responses in answers])
    return 0


def _keywords(function: Any, source: str) -> dict[str, Path]:
    parameter = inspect.signature(function).parameters.get(SOURCE)
    if parameter is None:
        return {}
    if source:
        return {SOURCE: Path(source)}
    if parameter.default is parameter.empty:
        raise TypeError(f"{function.__name__} has a parameter `source`, but model.yaml has no `source`")
    return {}


def _response(answer: Any) -> list[dict[str, Array]]:
    return [_checked(answer)]


def _responses(answers: Any) -> list[dict[str, Array]]:
    if isinstance(answers, Mapping) or not isinstance(answers, Iterable):
        raise TypeError(f"returned a {type(answers).__name__}, not a list of responses")
    return [_checked(answer) for answer in answers]


def _checked(answer: Any) -> dict[str, Array]:
    if not isinstance(answer, Mapping):
        raise TypeError(f"returned a {type(answer).__name__}, not a dictionary of named arrays")
    return {str(name): np.asarray(array) for name, array in answer.items()}


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))

"""Compare the endpoint's texts with those of transformers; exit with 1 on a difference."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import transformers

from tones import RATE, Samples, read_wav
from tritonstack.client import EndpointClient, ModelRequestError

MODEL = Path(__file__).parent / "models/speech"
sys.path.insert(0, str(MODEL))
from right import transcribe  # noqa: E402 - beside the model

LEAST_RIGHT = 0.9
"""The share of spoken words that the text must have, in their order."""


def ask(client: EndpointClient, sound: Samples, rate: int = RATE) -> str:
    """Return the endpoint's text of one sound."""
    answer = client.infer({"AUDIO": sound[None], "RATE": np.array([[rate]], np.int32)})
    return answer["TEXT"].item().decode()


def right_words(text: str, spoken: str) -> float:
    """Return the share of words that are right."""
    pairs = zip(text.split(), spoken.split(), strict=False)
    return sum(found == said for found, said in pairs) / len(spoken.split())


def main() -> int:
    """Print the text of each WAV file, and what the model rejects."""
    transformers.utils.logging.disable_progress_bar()
    client = EndpointClient(endpoint_name="tritonstack-local-speech")
    equal, texts = True, {}
    for file in sorted((MODEL / "weights/samples").glob("*.wav")):
        sound = read_wav(file)
        texts[file] = text = ask(client, sound)
        expected = transcribe({"AUDIO": sound[None]})["TEXT"].item().decode()
        share = right_words(text, file.with_suffix(".txt").read_text(encoding="utf-8"))
        equal &= text == expected and share >= LEAST_RIGHT
        verdict = "equal to transformers" if text == expected else f"transformers: {expected}"
        print(f"{file.name}, {len(sound) / RATE:.1f} s: {text}\n  {share:.0%} of the words right, {verdict}")
    callers = [*texts] * 4
    with ThreadPoolExecutor(len(callers)) as pool:
        answers = list(pool.map(lambda file: ask(client, read_wav(file)), callers))
    same = answers == [texts[file] for file in callers]
    print(f"{len(callers)} callers at the same time: {'the same texts' if same else answers}")
    rejected = 0
    for sound, rate in ((np.zeros(RATE, np.float32), 8000), (np.zeros(0, np.float32), RATE)):
        try:
            ask(client, sound, rate)
        except ModelRequestError as error:
            rejected += 1
            answer = error.service
            print(f"rejected with {answer.original_status}: {json.loads(answer.original_message)['error']}")
    return 0 if equal and same and rejected == 2 else 1


if __name__ == "__main__":
    sys.exit(main())

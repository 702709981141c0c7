"""The right answers for the build's check: those of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration

from sounds import RATE, split

FOLDER = Path(__file__).parent / "weights/transformers"


def transcribe(request: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the text of one sound by transformers, window by window."""
    model = WhisperForConditionalGeneration.from_pretrained(FOLDER)
    extractor = WhisperFeatureExtractor.from_pretrained(FOLDER)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    windows = split(request["AUDIO"][0], extractor.n_samples)
    features = extractor(windows, sampling_rate=RATE, return_tensors="pt").input_features
    with torch.inference_mode():
        tokens = model.generate(features, do_sample=False)
    texts = (text.strip() for text in tokenizer.batch_decode(tokens, skip_special_tokens=True))
    return {"TEXT": np.array([[" ".join(filter(None, texts)).encode()]], dtype=np.object_)}

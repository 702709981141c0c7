"""Texts to token ids, in Triton's Python backend, on the tokenizers library alone.

Padding, truncation and special tokens are spelt out in tokenizer.json beside this file. All requests that
Triton hands over at once are tokenised together, padded to the longest text among them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# The library starts threads of its own for a batch; it wants to be told that this is meant.
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import numpy as np
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer


class TritonPythonModel:
    """What Triton calls."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the tokenizer that lies beside this file."""
        folder = Path(args["model_repository"]) / args["model_version"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response for each request; a request that cannot be read spares its neighbours."""
        readings = [read_texts(request) for request in requests]
        texts = [text for reading in readings if isinstance(reading, list) for text in reading]
        encodings = self.tokenizer.encode_batch_fast(texts) if texts else []
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        responses, begin = [], 0
        for reading in readings:
            if isinstance(reading, str):
                responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(reading)))
                continue
            rows = slice(begin, begin + len(reading))
            begin = rows.stop
            responses.append(
                pb_utils.InferenceResponse(
                    [
                        pb_utils.Tensor("input_ids", np.ascontiguousarray(ids[rows])),
                        pb_utils.Tensor("attention_mask", np.ascontiguousarray(mask[rows])),
                    ]
                )
            )
        return responses


def read_texts(request: Any) -> list[str] | str:
    """The texts of a request as a list, or what is wrong with them as a str."""
    raw = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
    try:
        return [text.decode("utf-8") for text in raw]
    except UnicodeDecodeError as error:
        return f"TEXT is not UTF-8: {error}"

"""Answer the requests of one batch, with one line of text per sound."""

from __future__ import annotations

import numpy as np
import triton_python_backend_utils as pb_utils

from sounds import refusal, split


def answer_requests(requests, window, transcribe):
    """Cut all sounds into windows, and transcribe these together; an invalid request fails alone.

    `transcribe` maps a list of windows, of at most `window` samples each, to a list of texts.
    """
    read = [[_values(request, name) for name in ("AUDIO", "RATE")] for request in requests]
    reasons = [refusal(sounds, rates) for sounds, rates in read]
    cut = [
        [split(sound, window) for sound in sounds] if reason is None else []
        for (sounds, _), reason in zip(read, reasons, strict=True)
    ]
    texts = iter(transcribe([part for sounds in cut for parts in sounds for part in parts]))
    return [_response(sounds, reason, texts) for sounds, reason in zip(cut, reasons, strict=True)]


def _values(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def _response(sounds, reason, texts):
    """Return an error, or the next texts: one per window of each sound."""
    if reason is not None:
        error = pb_utils.TritonError(reason, pb_utils.TritonError.INVALID_ARG)  # status 400
        return pb_utils.InferenceResponse(error=error)
    found = [[next(texts).strip() for _ in parts] for parts in sounds]
    lines = [[" ".join(filter(None, parts)).encode()] for parts in found]
    return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array(lines, dtype=np.object_))])

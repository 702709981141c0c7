"""Sounds to texts by Whisper in ONNX Runtime: features, windows, and greedy decoding of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from answers import answer_requests
from sounds import RATE

WINDOW = 3 * RATE
FFT, HOP = 400, 160
BEGIN, END = 1, 2
MOST_TOKENS, MOST_WINDOWS = 7, 8


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args):
        """Load the files of `source`, which are beside this one."""
        folder = Path(args["model_repository"]) / args["model_version"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / f"{name}.onnx", options) for name in ("encoder", "decoder")
        )
        self.filters = np.load(folder / "mel_filters.npy")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def execute(self, requests):
        """Answer a batch of requests."""
        return answer_requests(requests, WINDOW, self.transcribe)

    def transcribe(self, windows):
        """Return the text of each window."""
        texts = []
        for begin in range(0, len(windows), MOST_WINDOWS):
            group = windows[begin : begin + MOST_WINDOWS]
            features = np.stack([features_of(window, self.filters) for window in group])
            (states,) = self.encoder.run(None, {self.encoder.get_inputs()[0].name: features})
            texts += self.tokenizer.decode_batch(self._tokens(states).tolist())
        return texts

    def _tokens(self, states):
        """Add the most likely token to every row until all have ended."""
        tokens = np.full((len(states), 1), BEGIN, np.int64)
        ended = np.zeros(len(states), bool)
        names = [tensor.name for tensor in self.decoder.get_inputs()]
        for _ in range(MOST_TOKENS):
            (scores,) = self.decoder.run(None, dict(zip(names, (tokens, states), strict=True)))
            new = np.where(ended, END, scores.argmax(axis=1))
            tokens = np.concatenate([tokens, new[:, None]], axis=1)
            ended |= new == END
            if ended.all():
                break
        return tokens


def features_of(window, filters):
    """Return Whisper's log-mel features of one window, filled with silence."""
    padded = np.pad(np.pad(window, (0, WINDOW - len(window))), FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:-1]
    power = np.abs(np.fft.rfft(frames * np.hanning(FFT + 1)[:-1])) ** 2
    mel = np.log10(np.maximum(power @ filters, 1e-10)).T
    return ((np.maximum(mel, mel.max() - 8) + 4) / 4).astype(np.float32)

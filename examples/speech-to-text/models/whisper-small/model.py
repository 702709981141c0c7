"""Sounds to texts by any Whisper of transformers, on a GPU or a CPU."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoFeatureExtractor, AutoTokenizer, WhisperForConditionalGeneration

from answers import answer_requests
from sounds import RATE

MOST_WINDOWS = 8


class TritonPythonModel:
    """The interface of Triton's Python backend."""

    def initialize(self, args):
        """Load the files of `source`, which are beside this one."""
        folder = Path(args["model_repository"]) / args["model_version"]
        on_gpu = args["model_instance_kind"] == "GPU"
        self.device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self.extractor = AutoFeatureExtractor.from_pretrained(folder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = WhisperForConditionalGeneration.from_pretrained(folder).eval().to(self.device)

    def execute(self, requests):
        """Answer a batch of requests."""
        return answer_requests(requests, self.extractor.n_samples, self.transcribe)

    def transcribe(self, windows):
        """Return the text of each window."""
        texts = []
        for begin in range(0, len(windows), MOST_WINDOWS):
            group = windows[begin : begin + MOST_WINDOWS]
            features = self.extractor(group, sampling_rate=RATE, return_tensors="pt").input_features
            with torch.inference_mode():
                tokens = self.model.generate(features.to(self.device), do_sample=False)
            texts += self.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return texts

"""Compare the endpoint's completions with transformers', whole and streamed; exit with 1 if they differ."""

from __future__ import annotations

import sys
import time

import torch
from transformers import AutoTokenizer, GPT2LMHeadModel

from train import WEIGHTS
from tritonstack.client import EndpointClient, ModelRequestError

PROMPTS = ("Once upon a time", "The captain", "Near the lighthouse, a")
TOKENS = 48


def expected(model: GPT2LMHeadModel, tokenizer: AutoTokenizer, prompt: str) -> str:
    """Return transformers' greedy completion."""
    tokens = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        found = model.generate(**tokens, max_new_tokens=TOKENS, do_sample=False, pad_token_id=0)
    return tokenizer.decode(found[0], skip_special_tokens=True)[len(prompt) :]


def main() -> int:
    """Print each completion while it arrives."""
    model, tokenizer = GPT2LMHeadModel.from_pretrained(WEIGHTS), AutoTokenizer.from_pretrained(WEIGHTS)
    client = EndpointClient(endpoint_name="tritonstack-local-storyteller")
    parameters = {"max_tokens": TOKENS}
    equal = True
    for prompt in PROMPTS:
        began, pieces, first = time.perf_counter(), [], 0.0
        print(prompt, end="", flush=True)
        for piece in client.stream(prompt, parameters=parameters):
            first = first or time.perf_counter() - began
            pieces.append(piece)
            print(piece, end="", flush=True)
        right = expected(model, tokenizer, prompt)
        same = "".join(pieces) == client.generate(prompt, parameters=parameters) == right
        equal &= same and len(pieces) > 1
        verdict = "equal to transformers" if same else f"expected {right!r}"
        print(f"\n  {len(pieces)} pieces, the first after {first * 1000:.0f} ms, {verdict}")
    sampled = {**parameters, "temperature": 1.2, "seed": 5}
    drawn = [client.generate(PROMPTS[0], parameters=sampled) for _ in range(2)]
    equal &= drawn[0] == drawn[1]
    try:
        client.generate(PROMPTS[0], parameters={"max_tokens": 100_000})
    except ModelRequestError as error:
        print(f"rejected: {error.service.original_message}")
    else:
        equal = False
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())

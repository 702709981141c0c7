"""Check the sounds of a request, and cut them into windows that Whisper takes."""

from __future__ import annotations

import numpy as np

RATE = 16_000
"""Samples per second of every Whisper."""
LONGEST_S = 600
STEP = RATE // 50
"""Samples of 20 ms."""


def refusal(sounds, rates):
    """Return why sounds (one per row) cannot be transcribed, or None."""
    if (wrong := rates[rates != RATE]).size:
        return (
            f"RATE is {wrong[0]}, expected {RATE} samples per second; "
            f"resample the sound, for example with `ffmpeg -i in.wav -ar {RATE} -ac 1 out.wav`"
        )
    if not 0 < sounds.shape[1] <= LONGEST_S * RATE:
        return f"AUDIO has {sounds.shape[1]} samples, expected 1 to {LONGEST_S * RATE} ({LONGEST_S} s)"
    if not np.isfinite(sounds).all():
        return "AUDIO has values that are not finite"
    if (largest := np.abs(sounds).max()) > 1:
        return f"AUDIO has values up to {largest:g}, expected -1 to 1; divide samples of 16 bits by 32768"
    return None


def split(sound, window):
    """Cut a sound into windows of at most `window` samples, each at the quietest 20 ms of its last second."""
    parts = []
    while len(sound) > window:
        steps = np.abs(sound[window - RATE : window]).reshape(-1, STEP).max(axis=1)
        cut = window - RATE + int(steps.argmin()) * STEP + STEP // 2
        parts.append(sound[:cut])
        sound = sound[cut:]
    return [*parts, sound]

"""Synthetic speech: each word is a tone of half a second. Also reads and writes WAV files."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
RATE = 16_000
WORDS = ("do", "re", "mi", "fa", "so", "la", "ti")
SECONDS = 0.5
LOWEST_HZ = 300.0
PAUSES = 0.3


def speak(words: list[str], random: np.random.Generator, *, pauses: float = PAUSES) -> Samples:
    """Return the sound of some words, with a little noise, and pauses before a share of them."""
    times = np.arange(int(RATE * SECONDS)) / RATE
    envelope = 0.5 * np.minimum(1, 10 * np.minimum(times, times[::-1]))
    parts = []
    for word in words:
        if random.random() < pauses:
            parts.append(np.zeros(int(RATE * random.uniform(0.1, 0.4))))
        hertz = LOWEST_HZ * 2 ** (WORDS.index(word) / 3)
        parts.append(envelope * np.sin(2 * np.pi * hertz * times))
    sound = np.concatenate(parts)
    return (sound + 0.005 * random.standard_normal(sound.shape)).astype(np.float32)


def write_wav(file: Path, samples: Samples) -> None:
    """Write samples from -1 to 1 as a WAV file of 16 bits."""
    with wave.open(str(file), "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(RATE)
        wav.writeframes((samples * 32767).astype("<i2").tobytes())


def read_wav(file: Path) -> Samples:
    """Read a mono WAV file of 16 bits and 16 kHz."""
    with wave.open(str(file), "rb") as wav:
        if (wav.getnchannels(), wav.getsampwidth(), wav.getframerate()) != (1, 2, RATE):
            raise ValueError(f"{file}: expected one channel, 16 bits, and {RATE} Hz")
        frames = wav.readframes(wav.getnframes())
    return np.frombuffer(frames, "<i2").astype(np.float32) / 32768

"""Open and closed loops against a server that stalls."""

import asyncio
import time

import numpy as np

from tritonstack_sizing.loads.arrivals import constant, poisson
from tritonstack_sizing.loads.sending import MAX_OPEN, Sent, closed_loop, open_loop, run_loop

STALL = (0.5, 1.1)


class Stalling:
    """Answers at once, but nothing during the stall."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.open = self.most = 0

    async def send(self, number: int) -> str:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0.001)
        now = time.perf_counter() - self.began
        if STALL[0] <= now < STALL[1]:
            await asyncio.sleep(STALL[1] - now)
        self.open -= 1
        return "" if number % 10 else "throttled"


def latencies(sent: Sent) -> np.ndarray:
    return np.array(sent.ended) - np.array(sent.due)


def test_an_open_loop_counts_the_waits_that_a_closed_loop_hides():
    """Of 1.5 s with a stall of 0.6 s, 40 % of the users who come at any time meet the stall."""
    opened = run_loop(open_loop(Stalling().send, constant(100, 1.5).offsets))
    assert 0.3 < (latencies(opened) > 0.05).mean() < 0.5
    closed = run_loop(closed_loop(Stalling().send, users=1, seconds=1.5))
    assert (latencies(closed) > 0.25).sum() == 1


def test_requests_beyond_the_most_that_may_be_open_wait_and_their_wait_counts():
    server = Stalling()
    sent = run_loop(open_loop(server.send, poisson(8_000, 1.0, seed=1).offsets))
    assert server.most <= MAX_OPEN
    assert max(np.array(sent.sent) - np.array(sent.due)) > 0.05


def test_every_request_is_sent_once_and_when_it_is_due():
    numbers = []

    async def send(number: int) -> str:
        numbers.append(number)
        return ""

    trace = poisson(300, 1.0, seed=2)
    sent = run_loop(open_loop(send, trace.offsets))
    assert numbers == list(range(len(trace.offsets)))
    assert sent.due == trace.offsets.tolist()
    assert (np.array(sent.sent) >= trace.offsets).all()

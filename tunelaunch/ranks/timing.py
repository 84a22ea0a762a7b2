"""Interleaved timing of a few callables on the current device: CUDA graphs, CUDA events, or the wall clock.

Each round runs every callable once, starting one place further on, so that drift and neighbours are shared evenly. On a
GPU each callable is captured once, a few calls to a graph, and replayed behind a short delay kernel, so that neither
Python nor the launch is in the figure. A callable that cannot be captured is timed with events instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

_TARGET_US = 800.0
_MOST_CALLS = 16
_DELAY_CYCLES = 200_000  # about 0.1 ms: covers the launch of a captured graph


def interleaved(functions: Sequence[Callable[[], Any]], rounds: int, device: str) -> list[list[float]]:
    """Microseconds of one call, ``[function][round]``. The device is ``cuda`` or anything that runs synchronously."""
    if device.startswith("cuda"):
        return _on_cuda(functions, rounds)
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    for index in _order(len(functions), rounds):
        start = time.perf_counter_ns()
        functions[index]()
        times[index].append((time.perf_counter_ns() - start) / 1e3)
    return times


def _order(count: int, rounds: int) -> list[int]:
    return [(place + shift) % count for shift in range(rounds) for place in range(count)]


def _on_cuda(functions: Sequence[Callable[[], Any]], rounds: int) -> list[list[float]]:
    import torch

    calls = _calls_per_replay(functions[0], torch)
    pool = torch.cuda.graph_pool_handle()
    replays = [_captured(function, calls, pool, torch) for function in functions]
    events: list[tuple[int, Any, Any]] = []
    for index in _order(len(functions), rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_DELAY_CYCLES)
        start.record()
        replays[index]()
        end.record()
        events.append((index, start, end))
    torch.cuda.synchronize()
    times: list[list[float]] = [[] for _ in functions]
    for index, start, end in events:
        times[index].append(start.elapsed_time(end) * 1e3 / calls)
    return times


def _calls_per_replay(function: Callable[[], Any], torch: Any) -> int:
    """Calls that together take about ``_TARGET_US``, so that short kernels are timed as well as long ones."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    function()
    torch.cuda._sleep(_DELAY_CYCLES)
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    one = max(start.elapsed_time(end) * 1e3, 1.0)
    return max(1, min(_MOST_CALLS, int(_TARGET_US / one)))


def _captured(function: Callable[[], Any], calls: int, pool: Any, torch: Any) -> Callable[[], Any]:
    """``calls`` calls as one graph replay; eager calls where capture fails."""
    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        function()  # compiles and allocates outside the capture
        side.synchronize()
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            for _ in range(calls):
                function()
            failed = None
        except Exception as error:
            failed = error
        try:
            graph.capture_end()
        except Exception as error:
            failed = failed or error
    current.wait_stream(side)
    if failed is None:
        return graph.replay
    torch.cuda.synchronize()
    return lambda: [function() for _ in range(calls)]

"""The GPU that is not there: the few answers of CUDA that SGLang's and FlashInfer's autotuning asks for.

Faked, named so, and nothing else. ``torch.cuda.is_available()`` stays false and ``device_count()`` stays 0, so that
every other decision of the host remains the one for a machine without a GPU.

- ``torch.cuda.is_current_stream_capturing`` -> False
- ``torch.cuda.current_device`` -> 0
- ``torch.cuda.get_device_name`` -> ``TUNELAUNCH_CPU_HOST_GPU`` or "Simulated GPU (CPU)"
- ``torch.cuda.get_device_capability`` -> ``TUNELAUNCH_CPU_HOST_CAPABILITY`` ("12.0") or (9, 0)
- ``torch.cuda.get_device_properties`` -> those two, ``TUNELAUNCH_CPU_HOST_SMS`` (8) multiprocessors, memory of this
  machine
- ``torch.cuda.current_stream`` -> torch's CPU stream
- ``AutoTuner._profile_single_kernel`` -> wall clock instead of CUDA events: best of three calls after one warm-up,
  averaged over FlashInfer's tune process group where one is set, as the original does

``TUNELAUNCH_CPU_HOST_TIMES=FILE`` plants timings for tests: ``{op: {tactic: {tokens or "*": milliseconds}}}``. A
planted tactic still runs once, so that its failures stay failures.
"""

from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tunelaunch.demo.counts import LEDGER

_REPEATS = 3


def install() -> None:
    """Replace the functions listed above in this process."""
    import torch

    name = os.environ.get("TUNELAUNCH_CPU_HOST_GPU") or "Simulated GPU (CPU)"
    major, minor = _capability()
    properties = SimpleNamespace(
        name=name,
        major=major,
        minor=minor,
        multi_processor_count=int(os.environ.get("TUNELAUNCH_CPU_HOST_SMS") or 8),
        total_memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        L2_cache_size=1 << 20,
    )
    answers: dict[str, Any] = {
        "is_current_stream_capturing": lambda: False,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: name,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "current_stream": lambda device=None: torch.cpu.current_stream(),
    }
    for function, answer in answers.items():
        setattr(torch.cuda, function, answer)
    _replace_timing()


def _capability() -> tuple[int, int]:
    text = os.environ.get("TUNELAUNCH_CPU_HOST_CAPABILITY") or "9.0"
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def _replace_timing() -> None:
    import sys

    from flashinfer.autotuner import AutoTuner

    # The module that holds the tune group has moved: flashinfer.autotuner, later flashinfer.autotuner.autotuner.
    module = sys.modules[AutoTuner.__module__]

    def profile(
        self: Any, runner: Any, inputs: list[Any], tactic: Any, tuning_config: Any, *args: Any, **kwargs: Any
    ) -> float:
        # The batches of rotated inputs that newer releases prepare (first of args) are a matter of GPU caches.
        kwargs.pop("input_tensor_batches", None)
        LEDGER.add_profile()
        return _timed(module, lambda: runner(inputs, tactic=tactic, **kwargs), _planted(runner, inputs, tactic))

    AutoTuner._profile_single_kernel = profile


def _timed(module: Any, call: Any, planted: float | None) -> float:
    """Milliseconds of ``call``, averaged over the tune group if there is one. Every rank reduces exactly once."""
    best, failure = float("inf"), None
    try:
        with module._profile_measurement_scope():
            call()
            for _ in range(0 if planted is not None else _REPEATS):
                start = time.perf_counter()
                call()
                best = min(best, (time.perf_counter() - start) * 1e3)
        best = best if planted is None else planted
    except BaseException as error:
        # Peers wait in the reduction below: reach it first, then fail.
        best, failure = float("inf"), error
    group = getattr(module, "_tune_process_group", None)
    if group is not None:
        import torch
        import torch.distributed as dist

        total = torch.tensor([best], dtype=torch.float64)
        dist.all_reduce(total, group=group)
        best = total.item() / dist.get_world_size(group)
    if failure is not None:
        raise failure
    return best


def _planted(runner: Any, inputs: list[Any], tactic: Any) -> float | None:
    by_tokens = _plan().get(getattr(runner, "op", ""), {}).get(str(tactic), {})
    value = by_tokens.get(str(inputs[0].shape[0]), by_tokens.get("*"))
    return None if value is None else float(value)


@functools.cache
def _plan() -> dict[str, dict[str, dict[str, float]]]:
    path = os.environ.get("TUNELAUNCH_CPU_HOST_TIMES")
    return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}

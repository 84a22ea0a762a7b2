"""The trial in time: one real layer, every choice against default on the same inputs, interleaved.

FlashInfer times a kernel alone; what counts is the whole op inside the layer. On an H200 (bf16, FlashInfer 0.6.14) its
own picks for CUTLASS MoE ran 11 to 17 % slower than default in the op from 1,024 tokens on, and 1.15x to 1.40x faster
below. Nothing here talks to another rank: a trial uses layers without collectives, and its result is exchanged after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tunelaunch.errors import HostError
from tunelaunch.hosts.layers import Layer
from tunelaunch.hosts.watch import forcing
from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Combo, Samples
from tunelaunch.ranks.timing import interleaved


def choices(combo: Combo) -> dict[str, tuple[str | None, Any]]:
    """A combination as :func:`~tunelaunch.hosts.watch.forcing` takes it."""
    return {op: (runner, tactic) for op, runner, tactic in combo}


Note = Callable[[Case, Combo], None]
"""Hears of a choice that is about to run."""


def no_note(case: Case, combo: Combo) -> None:
    """Nobody listens."""


def sample(case: Case, layer: Layer, rounds: int, seed: int = 0, note: Note = no_note) -> Samples:
    """Time every candidate of ``case``, default twice, on inputs drawn from ``seed``. Raises what the layer raises."""
    inputs = layer.inputs(case.tokens, seed)
    combos = [*case.candidates, case.candidates[0]]

    def runner(combo: Combo) -> Any:
        def run() -> Any:
            note(case, combo)
            with forcing(choices(combo)) as called:
                output = layer.run(inputs)
            must_have_run(case, called)
            return output

        return run

    times = interleaved([runner(combo) for combo in combos], rounds, _device(inputs))
    return Samples(case.candidates, tuple(map(tuple, times[:-1])), tuple(times[-1]))


def _device(inputs: tuple[list[Any], dict[str, Any]]) -> str:
    values = [*inputs[0], *inputs[1].values()]
    return next((str(v.device) for v in values if hasattr(v, "device")), "cpu")


def must_have_run(case: Case, called: Mapping[str, int]) -> None:
    """Raise :class:`HostError` unless every op of ``case`` was called: a comparison that never ran proves nothing."""
    absent = [op for op, _, _ in case.stages if op not in called]
    if absent:
        raise HostError(f"{case.owner} did not call {', '.join(absent)} at {case.tokens} tokens; it cannot be tried.")

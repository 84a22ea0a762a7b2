"""The trial: one real layer, tuned against default on the same inputs, interleaved. Time and numbers are both compared.

FlashInfer times a kernel alone; what counts is the whole op inside the layer. On an H200 (bf16, FlashInfer 0.6.14) its
own picks for CUTLASS MoE ran 11 to 17 % slower than default in the op from 1,024 tokens on, and 1.15x to 1.40x faster
below. Nothing here talks to another rank: a trial uses layers without collectives, and its result is exchanged after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tunelaunch.errors import HostError
from tunelaunch.hosts.layers import Layer
from tunelaunch.hosts.watch import DEFAULT, forcing
from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Combo, Samples
from tunelaunch.ranks.timing import interleaved

THRESHOLDS: Mapping[int, tuple[float, float]] = {4: (1e-4, 1e-3), 2: (0.02, 0.10), 1: (0.06, 0.30)}
"""(relative Frobenius error, error of the worst row) allowed, by bytes of the narrowest operand's element.

Two correct kernels differ by the order of their sums. In bf16 that is 0.0045 to 0.0052 in relative Frobenius norm (read
on an H200 over Qwen3-30B-A3B shapes); four times that leaves room for other shapes and is far below any real fault, which
starts near 0.3. A single row can be worse than the whole, as its norm may be small. Quantized operands add their own step.
"""


@dataclass(frozen=True)
class Check:
    """Tuned against default in numbers. ``wrong`` is a reason, or ``None`` when the outputs agree."""

    tokens: tuple[int, ...]
    frobenius: float
    worst_row: float
    limit: tuple[float, float]
    wrong: str | None = None
    blame: bool = True

    def worse_of(self, other: Check) -> Check:
        """The check to believe when two ranks saw different errors."""
        if (other.wrong is not None, other.frobenius) > (self.wrong is not None, self.frobenius):
            return other
        return self


def choices(combo: Combo) -> dict[str, tuple[str | None, Any]]:
    """A combination as :func:`~tunelaunch.hosts.watch.forcing` takes it."""
    return {op: (runner, tactic) for op, runner, tactic in combo}


def sample(case: Case, layer: Layer, rounds: int) -> Samples:
    """Time every candidate of ``case``, default twice. Raises what the layer raises."""
    inputs = layer.inputs(case.tokens)
    combos = [*case.candidates, case.candidates[0]]

    def runner(combo: Combo) -> Any:
        def run() -> Any:
            with forcing(choices(combo)) as called:
                output = layer.run(inputs)
            _must_have_run(case, called)
            return output

        return run

    times = interleaved([runner(combo) for combo in combos], rounds, _device(inputs))
    return Samples(case.candidates, tuple(map(tuple, times[:-1])), tuple(times[-1]))


def check(case: Case, combo: Combo, layer: Layer) -> Check:
    """Run ``combo`` and default on equal inputs, at the bucket and between buckets; the worse of the two."""
    found = [_check_at(case, combo, layer, tokens) for tokens in (case.tokens, case.between) if tokens]
    worst = max(found, key=lambda c: (c.wrong is not None, c.frobenius))
    return Check(
        tuple(c.tokens[0] for c in found), worst.frobenius, worst.worst_row, worst.limit, worst.wrong, worst.blame
    )


def guilty(case: Case, combo: Combo, layer: Layer) -> str | None:
    """The op whose tactic alone makes the layer wrong (each stage tuned, the others at default); ``None`` if several."""
    alone = []
    for op, runner, tactic in combo:
        single: Combo = tuple((o, r, t) if o == op else (o, *DEFAULT) for o, r, t in combo)
        if (runner, tactic) != DEFAULT and check(case, single, layer).wrong is not None:
            alone.append(op)
    return alone[0] if len(alone) == 1 else None


def _check_at(case: Case, combo: Combo, layer: Layer, tokens: int) -> Check:
    with forcing({op: DEFAULT for op, _, _ in combo}) as called:
        reference = layer.run(layer.inputs(tokens))
    _must_have_run(case, called)
    reference = reference.detach().float().clone()
    _poison(reference.shape, layer)
    with forcing(choices(combo)) as called:
        output = layer.run(layer.inputs(tokens)).detach().float()
    _must_have_run(case, called)
    limit = THRESHOLDS[_narrowest(layer)]
    if not bool(reference.isfinite().all()):
        return Check((tokens,), 0.0, 0.0, limit, "default's own output is not finite", blame=False)
    bad = int((~output.isfinite()).any(dim=-1).sum())
    if bad:
        return Check((tokens,), float("inf"), float("inf"), limit, f"{bad} of {tokens} rows not finite or not written")
    difference = (output - reference).flatten(1)
    rows, norms = difference.norm(dim=1), reference.flatten(1).norm(dim=1)
    frobenius = float(rows.norm() / norms.norm().clamp_min(1e-30))
    worst = float((rows / norms.clamp_min(1e-3 * float(norms.mean()) + 1e-30)).max())
    wrong = None
    if frobenius > limit[0] or worst > limit[1]:
        wrong = (
            f"differs from default by {frobenius:.3g} (limit {limit[0]:g}), worst row {worst:.3g} (limit {limit[1]:g})"
        )
    return Check((tokens,), frobenius, worst, limit, wrong)


def _poison(shape: Any, layer: Layer) -> None:
    """Leave not-a-number in the memory that the next output is likely to get, so that an unwritten element shows."""
    import torch

    dtype, device = next((p.dtype, p.device) for p in _tensors(layer))
    if dtype.is_floating_point and dtype.itemsize > 1:
        blocks = [torch.full(tuple(shape), float("nan"), dtype=dtype, device=device) for _ in range(4)]
        del blocks


def _narrowest(layer: Layer) -> int:
    """Bytes of the narrowest weight of the layer: the coarsest rounding that a kernel may do."""
    sizes = [p.element_size() for p in layer.module.parameters(recurse=False) if p.dim() > 1]
    return min([*sizes, *(t.element_size() for t in _tensors(layer)), 4])


def _tensors(layer: Layer) -> list[Any]:
    values = [*layer.args, *layer.kwargs.values()]
    return [v for v in values if hasattr(v, "element_size") and v.dtype.is_floating_point]


def _device(inputs: tuple[list[Any], dict[str, Any]]) -> str:
    values = [*inputs[0], *inputs[1].values()]
    return next((str(v.device) for v in values if hasattr(v, "device")), "cpu")


def _must_have_run(case: Case, called: Mapping[str, int]) -> None:
    absent = [op for op, _, _ in case.stages if op not in called]
    if absent:
        raise HostError(f"{case.owner} did not call {', '.join(absent)} at {case.tokens} tokens; it cannot be tried.")

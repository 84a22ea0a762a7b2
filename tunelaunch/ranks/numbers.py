"""The trial in numbers: a choice against default on equal inputs, with a control before anything is blamed.

A tuned kernel that is fast and wrong is what operators fear most, and the loudest such report was withdrawn because
another kernel was at fault. So a disagreement is blamed on a choice only if default is not the odd one out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from tunelaunch.hosts.layers import Layer
from tunelaunch.hosts.watch import DEFAULT, forcing
from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Combo
from tunelaunch.ranks.trial import Note, choices, must_have_run, no_note

THRESHOLDS: Mapping[int, tuple[float, float]] = {4: (2e-3, 2e-2), 2: (0.02, 0.10), 1: (0.06, 0.30)}
"""(relative Frobenius error, error of the worst row) allowed, by bytes of the narrowest operand's element.

Two correct kernels differ by the order of their sums. In bf16 that is 0.0045 to 0.0052 in relative Frobenius norm (read
on an H200 over Qwen3-30B-A3B shapes); four times that leaves room for other shapes and is far below any real fault, which
starts near 0.3. A single row can be worse than the whole, as its norm may be small. Quantized operands add their own step;
four-byte ones may be multiplied in TF32.
"""

Limits = tuple[float, float]

_CONTROLS = 3
"""Other choices that are run when one disagrees with default."""


@dataclass(frozen=True)
class Check:
    """A choice against default in numbers. ``wrong`` is a reason, or ``None`` when the outputs agree.

    ``blame`` is false where the choice is not at fault: default's own output is not finite, or default is the one that
    disagrees with the other choices.
    """

    tokens: tuple[int, ...]
    frobenius: float
    worst_row: float
    limit: Limits
    wrong: str | None = None
    blame: bool = True

    def worse_of(self, other: Check) -> Check:
        """The check to believe when two sizes or two ranks saw different errors."""
        mine, theirs = ((c.wrong is not None, c.frobenius) for c in (self, other))
        worst = other if theirs > mine else self
        return replace(worst, tokens=tuple(dict.fromkeys((*self.tokens, *other.tokens))))


def check(case: Case, combo: Combo, layer: Layer, limits: Limits | None = None, note: Note = no_note) -> Check:
    """Run ``combo`` and default on equal inputs, at the bucket and between buckets; the worse of the two.

    Raises what the layer raises, and :class:`~tunelaunch.errors.HostError` when an op of the case was not called.
    """
    limit = limits or THRESHOLDS[_narrowest(layer)]
    sizes = [tokens for tokens in (case.tokens, case.between) if tokens]
    return reduce(Check.worse_of, (_check_at(case, combo, layer, tokens, limit, note) for tokens in sizes))


def guilty(case: Case, combo: Combo, layer: Layer, limits: Limits | None = None, note: Note = no_note) -> str | None:
    """The op whose tactic alone makes the layer wrong (each stage tuned, the others at default); ``None`` if several."""
    alone = []
    for op, runner, tactic in combo:
        single: Combo = tuple((o, r, t) if o == op else (o, *DEFAULT) for o, r, t in combo)
        if (runner, tactic) != DEFAULT and check(case, single, layer, limits, note).wrong is not None:
            alone.append(op)
    return alone[0] if len(alone) == 1 else None


def _check_at(case: Case, combo: Combo, layer: Layer, tokens: int, limit: Limits, note: Note) -> Check:
    reference = _output(case, case.candidates[0], layer, tokens)
    if not bool(reference.isfinite().all()):
        return Check(
            (tokens,), 0.0, 0.0, limit, "default's own output is not finite: not caused by tuning", blame=False
        )
    note(case, combo)
    output = _output(case, combo, layer, tokens)
    frobenius, worst, wrong = compare(output, reference, limit)
    if wrong is not None and _default_is_odd(case, combo, layer, tokens, limit, reference, output):
        return Check(
            (tokens,), frobenius, worst, limit, f"default is the odd one out: not caused by tuning ({wrong})", False
        )
    return Check((tokens,), frobenius, worst, limit, wrong)


def compare(output: Any, reference: Any, limit: Limits) -> tuple[float, float, str | None]:
    """(relative Frobenius error, error of the worst row, what is wrong or ``None``) of two fp32 outputs ``[tokens, ...]``."""
    bad = int((~output.flatten(1).isfinite()).any(dim=1).sum())
    if bad:
        return float("inf"), float("inf"), f"{bad} of {output.shape[0]} rows not finite or not written"
    rows, norms = (output - reference).flatten(1).norm(dim=1), reference.flatten(1).norm(dim=1)
    frobenius = float(rows.norm() / norms.norm().clamp_min(1e-30))
    worst = float((rows / norms.clamp_min(1e-3 * float(norms.mean()) + 1e-30)).max())
    if frobenius <= limit[0] and worst <= limit[1]:
        return frobenius, worst, None
    words = f"differs from default by {frobenius:.3g} (limit {limit[0]:g}), worst row {worst:.3g} (limit {limit[1]:g})"
    return frobenius, worst, words


def _default_is_odd(
    case: Case, combo: Combo, layer: Layer, tokens: int, limit: Limits, reference: Any, output: Any
) -> bool:
    """Whether more of the other choices agree with the suspect than with default."""
    others = [
        c for c in case.candidates[1:] if c != combo and not any(entry in combo and entry[2] != -1 for entry in c)
    ]
    votes = 0
    for other in others[:_CONTROLS]:
        control = _output(case, other, layer, tokens)
        votes += compare(control, output, limit)[2] is None
        votes -= compare(control, reference, limit)[2] is None
    return votes > 0


def _output(case: Case, combo: Combo, layer: Layer, tokens: int) -> Any:
    """The layer's output in fp32 with ``combo``, over memory that was poisoned first."""
    inputs = layer.inputs(tokens)
    _poison(tokens, layer)
    with forcing(choices(combo)) as called:
        output = layer.run(inputs)
    must_have_run(case, called)
    return output.detach().float().clone()


def _poison(tokens: int, layer: Layer) -> None:
    """Leave not-a-number in the memory that the next output is likely to get, so that an unwritten element shows."""
    import torch

    for value in _tensors(layer):
        if value.element_size() > 1 and value.shape[:1] == (layer.tokens,):
            shape = (tokens, *value.shape[1:])
            blocks = [torch.full(shape, float("nan"), dtype=value.dtype, device=value.device) for _ in range(4)]
            del blocks


def _narrowest(layer: Layer) -> int:
    """Bytes of the narrowest weight or input of the layer: the coarsest rounding that a kernel may do."""
    sizes = [p.element_size() for p in layer.module.parameters(recurse=False) if p.dim() > 1]
    return min([*sizes, *(t.element_size() for t in _tensors(layer)), 4])


def _tensors(layer: Layer) -> list[Any]:
    values = [*layer.args, *layer.kwargs.values()]
    return [v for v in values if hasattr(v, "element_size") and v.dtype.is_floating_point]

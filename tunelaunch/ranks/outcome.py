"""What a start was asked for in trials, and the settled result of a pass: plain data, equal on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.hosts.layers import Layer
from tunelaunch.ranks.cases import Case, Effort, Found, Stage
from tunelaunch.ranks.decide import Combo, Verdict
from tunelaunch.ranks.numbers import Check
from tunelaunch.store import Row
from tunelaunch.store.hidden import Hidden

Trials = Callable[[str], "Layer | None"]
"""The layer of a name on this rank."""

Where = tuple[str, int]
"""(owner layer, tokens): one trial."""


@dataclass(frozen=True)
class Rules:
    """What a start was asked for, as far as trials go."""

    effort: Effort
    min_gain_percent: float
    verify: bool
    incumbents: Mapping[Stage, Row] = field(default_factory=dict)
    hidden: Hidden = frozenset()
    recheck: frozenset[Stage] = frozenset()
    """Loaded rows whose numbers are looked at again."""
    limits: tuple[float, float] | None = None
    """(relative Frobenius error, error of the worst row) allowed, where the user gave them."""


@dataclass(frozen=True)
class Bench:
    """Where trials run on this rank: its layers, and who hears of them.

    ``note`` hears of each choice before it runs in a layer; ``ruined`` hears that a choice left the device unusable.
    """

    layer: Trials
    note: Callable[[Case, Combo], None] = lambda case, combo: None
    ruined: Callable[[], None] = lambda: None
    progress: Callable[[str], None] = lambda line: None


@dataclass
class Outcome:
    """The settled result of a pass, equal on every rank.

    ``verdicts`` and ``checks`` are by (owner, tokens); ``failures`` are tactics that computed wrong numbers; ``untried``
    are new rows without a judgement; ``lost`` are trials that could not be run, with the reason.
    """

    found: Sequence[Found] = ()
    cases: Sequence[Case] = ()
    verdicts: dict[Where, Verdict] = field(default_factory=dict)
    checks: dict[Where, Check] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    untried: Mapping[Stage, str] = field(default_factory=dict)
    lost: dict[Where, str] = field(default_factory=dict)
    profiles: Sequence[int] = ()


def free_memory() -> None:
    """Give cached GPU memory back, so that the next trial and the graph capture find what they would find without us."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def device_lost() -> bool:
    """Whether the CUDA context of this process is beyond use: then nothing after it says anything about a tactic."""
    import torch

    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False

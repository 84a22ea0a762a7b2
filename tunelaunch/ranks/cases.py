"""What a tuning pass found on one rank, and the trials that follow from it: plain data that travels between ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.ranks.decide import Combo, candidates_for
from tunelaunch.store import Row
from tunelaunch.store.hidden import Hidden, hides

Stage = tuple[str, str | None, str]
"""(op, scope, key): one row of one stage of an op."""


@dataclass(frozen=True)
class Effort:
    """How hard to look: ``options`` near-best tactics a stage, ``limit`` choices a trial.

    Every choice runs ``heat`` interleaved rounds, the near-best then ``rounds`` more, on other inputs and captured anew.
    """

    options: int
    limit: int
    heat: int
    rounds: int


EFFORTS: Mapping[str, Effort] = {
    "quick": Effort(options=1, limit=3, heat=3, rounds=5),
    "normal": Effort(options=3, limit=12, heat=5, rounds=11),
    "thorough": Effort(options=5, limit=30, heat=9, rounds=31),
}


@dataclass(frozen=True)
class Found:
    """One wanted row of a pass. ``state``: ``loaded``, ``tuned`` (profiled now), ``failed`` (profiled, nothing ran).

    ``timings`` are the profile's (runner, tactic, microseconds); ``value`` is FlashInfer's list for the pick;
    ``asked_tokens`` is the size of the forward pass that called the op (plain SGLang tunes up to there); ``rank`` is the
    rank in the group that found it, 0 unless its key carries the rank.
    """

    op: str
    scope: str | None
    key: str
    tokens: int | None
    owner: str | None
    state: str
    value: Sequence[Any] = ()
    timings: Sequence[tuple[str, Any, float]] = ()
    failed: int = 0
    carries_ranks: bool = False
    asked_tokens: int = 0
    rank: int = 0

    @property
    def stage(self) -> Stage:
        return self.op, self.scope, self.key


@dataclass(frozen=True)
class Case:
    """One trial: a layer at one bucket. ``stages`` and the entries of each candidate are in call order.

    ``between`` is a token count that is served by the same rows and lies between two buckets. ``recheck``: the rows were
    loaded, so only their numbers are looked at (``candidates`` are default and the loaded choice).
    """

    owner: str
    tokens: int
    between: int | None
    stages: tuple[Stage, ...]
    candidates: tuple[Combo, ...]
    incumbent: Combo | None = None
    recheck: bool = False
    tried: int = 0
    """Choices that were tried in all; ``candidates`` become fewer after the heat."""


@dataclass(frozen=True)
class Plan:
    """All trials of a pass, and new rows that no trial can judge with the reason."""

    cases: tuple[Case, ...] = ()
    untried: Mapping[Stage, str] = field(default_factory=dict)


def plan(
    found: Iterable[Found],
    *,
    effort: Effort,
    triable: Mapping[str, str | None],
    incumbents: Mapping[tuple[str, str | None, str], Row],
    hidden: Hidden = frozenset(),
    recheck: Callable[[Stage], bool] = lambda stage: False,
) -> Plan:
    """Group the rows of a pass into trials.

    ``triable`` maps each owner layer to ``None``, or to the reason why it cannot be run again. ``hidden`` are quarantined
    (key, scope, runner, tactic as text), never tried. A layer is tried where at least one of its rows is new, and looked
    at again where ``recheck`` says so of a loaded row.
    """
    groups: dict[tuple[str, int], list[Found]] = {}
    untried: dict[Stage, str] = {}
    for row in found:
        if row.rank != 0:
            continue  # the same call as the leader's under another key: it gets the leader's verdict
        reason = "its layer is not known" if row.owner is None else triable.get(row.owner, "its layer is not known")
        if row.tokens is None:
            reason = "it has no single token dimension"
        if reason is None and row.owner is not None and row.tokens is not None:
            group = groups.setdefault((row.owner, row.tokens), [])
            if all(other.stage != row.stage for other in group):
                group.append(row)
        elif row.state != "loaded":
            untried[row.stage] = reason or ""
    cases = []
    sizes: dict[str, list[int]] = {}
    for owner, tokens in groups:
        sizes.setdefault(owner, []).append(tokens)
    judged: set[Stage] = set()
    for (owner, tokens), rows in sorted(groups.items()):
        old = all(row.state == "loaded" for row in rows)
        again = old and any(recheck(row.stage) and row.value[1] != -1 for row in rows)
        if all(row.stage in judged for row in rows) or (old and not again):
            continue
        judged.update(row.stage for row in rows)
        held = _incumbent(rows, incumbents)
        stages = {row.op: _options(row, effort.options, hidden) for row in rows}
        choices = _loaded(rows) if old else candidates_for(stages, limit=effort.limit, incumbent=held)
        cases.append(
            Case(
                owner=owner,
                tokens=tokens,
                between=_between(tokens, sizes[owner]),
                stages=tuple(row.stage for row in rows),
                candidates=choices,
                incumbent=held,
                recheck=old,
                tried=len(choices),
            )
        )
    return Plan(tuple(cases), untried)


def _options(row: Found, count: int, hidden: Hidden) -> list[tuple[str | None, Any]]:
    if row.state == "loaded":
        return [normal_choice(*row.value[:2])]
    ranked = sorted(row.timings, key=lambda item: item[2])
    seen: list[tuple[str | None, Any]] = []
    for runner, tactic, _ in ranked:
        choice = normal_choice(runner, tactic)
        if choice not in seen and choice[1] != -1 and not hides(hidden, row.op, row.key, row.scope, runner, tactic):
            seen.append(choice)
    return seen[:count]


def _loaded(rows: Sequence[Found]) -> tuple[Combo, ...]:
    """Default, and exactly what was loaded."""
    return (
        tuple((row.op, None, -1) for row in rows),
        tuple((row.op, *normal_choice(*row.value[:2])) for row in rows),
    )


def normal_choice(runner: str, tactic: Any) -> tuple[str | None, Any]:
    """(runner, tactic), with default written one way only."""
    return (None, -1) if tactic == -1 else (runner, tactic)


def _incumbent(rows: Sequence[Found], incumbents: Mapping[Stage, Row]) -> Combo | None:
    held = [incumbents.get(row.stage) for row in rows]
    if any(row is None for row in held):
        return None
    return tuple(
        (row.op, *normal_choice(old.runner, old.tactic)) for row, old in zip(rows, held, strict=True) if old is not None
    )


def _between(tokens: int, sizes: Sequence[int]) -> int | None:
    smaller = [size for size in sizes if size < tokens]
    middle = (max(smaller) + tokens + 1) // 2 if smaller else tokens
    return middle if middle < tokens else None

"""The report of one start, put together from the receipts of its ranks. Schema ``tunelaunch/report/1``.

Rows are those of the leader's receipt (they are equal on all ranks by construction; where they are not, the report says
so), profiles are summed over ranks, tuning seconds are the slowest rank's. Absent or malformed parts of a receipt count
as nothing and never raise. No argument and no variable of the start enters a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tunelaunch.report import lenient
from tunelaunch.report.ops import COUNTS, OpCounts, count_ops

SCHEMA = "tunelaunch/report/1"


@dataclass(frozen=True)
class LaunchReport:
    """What one start did, over all its ranks."""

    launch: str
    expected_ranks: int | None = None
    ranks: Sequence[int] = ()
    missing_ranks: Sequence[int] = ()
    leader: int | None = None
    states: Mapping[str, Sequence[int]] = field(default_factory=dict)
    unranked: int = 0
    """Processes that left a receipt without knowing their rank: they have not come to tuning."""
    device: Mapping[str, Any] = field(default_factory=dict)
    other_devices: Sequence[str] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    unproven: bool = False
    ops: Sequence[OpCounts] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    unequal_ranks: Sequence[int] = ()
    """Ranks whose row counts differ from the leader's."""
    passes: Sequence[Mapping[str, Any]] = ()
    nothing: str | None = None
    """Why no tuning pass was run, where none was."""
    profiles: int = 0
    seconds: float = 0.0
    table: Mapping[str, Any] = field(default_factory=dict)
    fallbacks: Sequence[str] = ()
    problems: Sequence[str] = ()
    tracebacks: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {"schema": SCHEMA, **asdict(self)}


def assemble(receipts: Sequence[Mapping[str, Any]], launch: str, expected_ranks: int | None = None) -> dict[str, Any]:
    """The report of ``launch`` as a JSON object; see :class:`LaunchReport` for its fields.

    ``expected_ranks`` is how many ranks should have written a receipt; by default the largest world in the receipts.
    """
    every = lenient.objects(list(receipts))
    by_rank = {rank: r for r in every if (rank := lenient.whole(r.get("rank"))) is not None}
    ranks = sorted(by_rank)
    if expected_ranks is None:
        expected_ranks = max((lenient.count(r.get("world")) for r in by_rank.values()), default=0) or None
    leaders = [rank for rank in ranks if by_rank[rank].get("leader") is True] or ranks[:1]
    lead: Mapping[str, Any] = by_rank[leaders[0]] if leaders else {}
    ops = count_ops(by_rank[rank] for rank in leaders)
    counted = [op.counts() for op in ops]
    active = [rank for rank in ranks if by_rank[rank].get("state") == "active"]
    environment = lenient.mapping(lead.get("environment"))
    device = lenient.mapping(lead.get("device"))
    names = {lenient.text(lenient.mapping(r.get("device")).get("name")) for r in by_rank.values()}
    return LaunchReport(
        launch=launch,
        expected_ranks=expected_ranks,
        ranks=ranks,
        missing_ranks=[rank for rank in range(expected_ranks or 0) if rank not in by_rank],
        leader=leaders[0] if leaders else None,
        states=_states(by_rank),
        unranked=sum(1 for r in every if lenient.whole(r.get("rank")) is None),
        device=dict(device),
        other_devices=sorted(name for name in names if name and name != device.get("name")),
        environment=dict(environment),
        unproven=bool(environment.get("indeterminate")),
        ops=ops,
        totals={name: sum(getattr(op, name) for op in ops) for name in COUNTS},
        # With several leaders (pipeline stages) each group has rows of its own, and no rank has them all.
        unequal_ranks=[
            rank
            for rank in (active if len(leaders) == 1 else ())
            if [op.counts() for op in count_ops([by_rank[rank]])] != counted
        ],
        passes=[_pass(p) for p in lenient.objects(lead.get("passes"))],
        nothing=None if any(_passes(r) for r in by_rank.values()) else lenient.text(lead.get("nothing")),
        profiles=sum(lenient.count(p.get("profiles")) for r in by_rank.values() for p in _passes(r)),
        seconds=max((_seconds(r) for r in by_rank.values()), default=0.0),
        table=dict(lenient.mapping(lead.get("table"))),
        fallbacks=_said(every, "fallbacks"),
        problems=_said(every, "problems"),
        tracebacks={str(rank): text for rank in ranks if (text := lenient.text(by_rank[rank].get("traceback")))},
    ).to_json()


def _passes(receipt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return lenient.objects(receipt.get("passes"))


def _pass(part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": lenient.text(part.get("name")) or "unknown",
        "seconds": lenient.number(part.get("seconds")) or 0.0,
        "profiles": lenient.count(part.get("profiles")),
    }


def _seconds(receipt: Mapping[str, Any]) -> float:
    return sum(lenient.number(part.get("seconds")) or 0.0 for part in _passes(receipt))


def _states(by_rank: Mapping[int, Mapping[str, Any]]) -> dict[str, list[int]]:
    states: dict[str, list[int]] = {}
    for rank in sorted(by_rank):
        states.setdefault(lenient.text(by_rank[rank].get("state")) or "unknown", []).append(rank)
    return states


def _said(receipts: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Each text once, in order of first mention; the ranks that said it are added where not all did."""
    ranks: dict[str, list[int]] = {}
    for receipt in receipts:
        rank = lenient.whole(receipt.get("rank"))
        for text in dict.fromkeys(lenient.texts(receipt.get(name))):
            ranks.setdefault(text, []).extend([] if rank is None else [rank])
    known = sum(1 for receipt in receipts if lenient.whole(receipt.get("rank")) is not None)
    return [_with_ranks(text, sorted(said)) if 0 < len(said) < known else text for text, said in ranks.items()]


def _with_ranks(text: str, ranks: Sequence[int]) -> str:
    return f"{text} ({'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))})"

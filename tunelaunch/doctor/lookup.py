"""Where a table of one device and environment would be found, what is there, and which other table comes nearest.

Guarantees: reads only, and makes nothing; a seed or table that cannot be read is a problem in the answer, never an error; a
remote is named and not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tunelaunch.device.environment import Difference, Environment, differences
from tunelaunch.errors import ShareError
from tunelaunch.share.evidence import hidden_of, is_hidden
from tunelaunch.share.seeds import fill, read_seeds
from tunelaunch.share.signing import Trust, trust_from
from tunelaunch.share.url import shown
from tunelaunch.store import Row, Store, TableId

LOCAL, OVERLAY, SEED, REMOTE = "local", "overlay", "seed", "remote"


@dataclass(frozen=True)
class Sources:
    """Where to look, in this order: tables at ``roots`` (kind and path), then ``seeds``; ``remote`` is only named."""

    roots: Sequence[tuple[str, Path]]
    seeds: Sequence[str] = ()
    remote: str = ""

    def named(self) -> list[tuple[str, str]]:
        """Kind and place of all, in order, without looking; passwords in URLs are left out."""
        named = [(kind, str(root)) for kind, root in self.roots] + [(SEED, seed) for seed in self.seeds]
        return named + ([(REMOTE, shown(self.remote))] if self.remote else [])


@dataclass(frozen=True)
class Looked:
    """One place. ``rows`` that a start would use from it; ``None``: it was not asked."""

    kind: str
    place: str
    rows: int | None = None
    generation: int | None = None
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "place": self.place,
            "asked": self.rows is not None,
            "rows": self.rows,
            "generation": self.generation,
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class OpCount:
    """Rows of one op: ``default`` of them say "default is best"; ``hidden`` are in quarantine and not used."""

    op: str
    rows: int
    default: int
    scopes: int
    hidden: int

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "rows": self.rows,
            "tuned": self.rows - self.default,
            "default": self.default,
            "scopes": self.scopes,
            "hidden": self.hidden,
        }


@dataclass(frozen=True)
class Nearest:
    """Another table, and in which fields its environment differs (decisive ones first)."""

    tid: TableId
    place: str
    rows: int
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "table": str(self.tid),
            "place": self.place,
            "rows": self.rows,
            "differences": [
                {"field": d.field, "saved": d.saved, "current": d.current, "decisive": d.decisive}
                for d in self.differences
            ],
        }


@dataclass(frozen=True)
class Lookup:
    """The answer for one table."""

    tid: TableId
    looked: tuple[Looked, ...]
    ops: tuple[OpCount, ...]
    nearest: Nearest | None = None

    @property
    def hit(self) -> bool:
        """Whether a start would load at least one row."""
        return any(op.rows for op in self.ops)


def look_up(tid: TableId, environment: Environment, sources: Sources) -> Lookup:
    """What a start on ``tid`` in ``environment`` would find."""
    looked: list[Looked] = []
    rows: list[Row] = []
    quarantine: list[Any] = []
    for kind, root in sources.roots:
        store = Store.open(root, readonly=True)
        loaded = store.load(tid)
        table = loaded.table
        fresh = _new(table.rows if table else (), rows)
        rows += fresh
        quarantine += store.read_quarantine(tid)
        problems = tuple(map(str, (*loaded.problems, *store.problems)))
        looked.append(Looked(kind, str(root), len(fresh), table.generation if table else None, problems))
    looked += _seeds(tid, environment, sources.seeds, rows, quarantine)
    if sources.remote:
        looked.append(Looked(REMOTE, shown(sources.remote)))
    ops = _ops(rows, quarantine)
    nearest = None if any(op.rows for op in ops) else _nearest(tid, environment, sources)
    return Lookup(tid, tuple(looked), ops, nearest)


def _seeds(
    tid: TableId, environment: Environment, seeds: Sequence[str], rows: list[Row], quarantine: list[Any]
) -> list[Looked]:
    try:
        trust = trust_from()
    except ShareError:
        trust = Trust(required=True)
    found = []
    for seed in seeds:
        read = read_seeds(tid, [seed], trust, environment)
        fresh = [row for row, _ in fill(rows, read.rows)]
        rows += fresh
        quarantine += read.quarantine
        found.append(Looked(SEED, seed, len(fresh), None, read.problems))
    return found


def _new(rows: Iterable[Row], taken: Sequence[Row]) -> list[Row]:
    there = {row.identity for row in taken}
    return [row for row in rows if row.identity not in there]


def _ops(rows: Sequence[Row], quarantine: Sequence[Any]) -> tuple[OpCount, ...]:
    hidden = hidden_of(quarantine)
    found = []
    for op in sorted({row.op or "unknown" for row in rows}):
        own = [row for row in rows if (row.op or "unknown") == op]
        used = [row for row in own if not is_hidden(row, hidden)]
        scopes = {row.scope for row in used if row.scope is not None}
        found.append(OpCount(op, len(used), sum(row.is_default for row in used), len(scopes), len(own) - len(used)))
    return tuple(found)


def _nearest(tid: TableId, environment: Environment, sources: Sources) -> Nearest | None:
    """Same device first, then fewest decisive differences, then most rows."""
    places = [root for _, root in sources.roots]
    places += [Path(seed).expanduser() for seed in sources.seeds if Path(seed).expanduser().is_dir()]
    candidates: list[Nearest] = []
    for place in places:
        store = Store.open(place, readonly=True)
        for info in store.tables():
            fields = store.read_environment(info.tid)
            if info.problem is not None or fields is None or info.tid == tid or not info.rows:
                continue
            saved = Environment.from_json({"fields": fields})
            candidates.append(Nearest(info.tid, str(place), info.rows, tuple(_told(saved, environment))))
    return min(candidates, key=lambda near: _distance(near, tid), default=None)


def _distance(near: Nearest, tid: TableId) -> tuple[bool, int, int, str]:
    decisive = sum(difference.decisive for difference in near.differences)
    return (near.tid.device != tid.device, decisive, -near.rows, str(near.tid))


def _told(saved: Environment, current: Environment) -> list[Difference]:
    """The differences that say something: what is only recorded, and unknown on one side, is left out."""
    unknown = (None, "")
    found = differences(saved, current)
    return [d for d in found if d.decisive or (d.saved not in unknown and d.current not in unknown)]


def with_tag(environment: Environment, tag: str | None) -> Environment:
    """``environment`` for a start with ``tag`` (``None``: as recorded)."""
    return environment if tag is None else replace(environment, fields={**environment.fields, "tag": tag})

"""What changed between two states of a table. Pure: no disk, no clock.

Guarantees: every key of either state is counted exactly once; a state differs from itself by nothing; with the states
swapped, gained and lost swap, and so do new and gone. A time is compared only where both states recorded one, and a
difference within the noise that the rows recorded is no gain and no loss: the times are of two starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .jsontext import encode
from .rows import Row
from .table import Table

KINDS = ("gained", "lost", "changed", "new", "gone")


@dataclass(frozen=True)
class Choice:
    """What a row says. ``us`` is the time of the whole op in microseconds, ``default_us`` that of the default."""

    runner: str
    tactic: Any
    us: float | None = None
    default_us: float | None = None
    noise_percent: float = 0.0


@dataclass(frozen=True)
class RowChange:
    """One key that differs. ``kind`` is one of :data:`KINDS`; ``percent`` is how much less time it takes now."""

    kind: str
    op: str
    tokens: int | None
    key: str
    scope: str | None
    before: Choice | None
    after: Choice | None
    percent: float | None = None


@dataclass(frozen=True)
class TableDiff:
    """Changes in the order of op, tokens and key. ``same`` counts rows whose choice is the one from before.

    The generations are ``None`` where there was no table.
    """

    before: int | None
    after: int | None
    changes: tuple[RowChange, ...] = ()
    same: int = 0

    def of(self, kind: str) -> tuple[RowChange, ...]:
        """The changes of one kind."""
        return tuple(change for change in self.changes if change.kind == kind)

    def counts(self) -> dict[str, int]:
        """How many changes of each kind, and ``same``."""
        return {kind: len(self.of(kind)) for kind in KINDS} | {"same": self.same}

    def summary(self) -> str:
        """One line: generations and counts."""
        counts = self.counts()
        names = ["no table" if n is None else f"generation {n}" for n in (self.before, self.after)]
        if not self.changes:
            return f"{names[0]} -> {names[1]}: no choice differs ({self.same} rows the same)"
        return f"{names[0]} -> {names[1]}: " + ", ".join(
            f"{n} {'the same' if kind == 'same' else kind}" for kind, n in counts.items() if n
        )

    def to_json(self) -> dict[str, Any]:
        """The diff as a JSON object."""
        return {
            "before": self.before,
            "after": self.after,
            "counts": self.counts(),
            "changes": [asdict(change) for change in self.changes],
        }


def diff(before: Table | None, after: Table | None) -> TableDiff:
    """How ``after`` differs from ``before``; ``None`` stands for no table."""
    old = {row.identity: row for row in before.rows} if before else {}
    new = {row.identity: row for row in after.rows} if after else {}
    changes = []
    for identity in old.keys() | new.keys():
        change = _change(old.get(identity), new.get(identity))
        if change is not None:
            changes.append(change)
    changes.sort(key=lambda c: (c.op, c.tokens is None, c.tokens or 0, c.key, c.scope is not None, c.scope or ""))
    return TableDiff(
        before.generation if before else None,
        after.generation if after else None,
        tuple(changes),
        len(old.keys() | new.keys()) - len(changes),
    )


def choice_of(row: Row) -> Choice:
    """What ``row`` says, with the times that its trial recorded."""
    us = row.evidence.get("us")
    times: Mapping[str, Any] = us if isinstance(us, Mapping) else {}
    noise = _positive(row.evidence.get("noise_percent")) or 0.0
    return Choice(row.runner, row.tactic, _positive(times.get("winner")), _positive(times.get("default")), noise)


def tokens_of(row: Row) -> int | None:
    """The batch size in tokens that ``row`` is for, where it was recorded."""
    tokens = row.evidence.get("tokens")
    return tokens if type(tokens) is int else None


def _change(old: Row | None, new: Row | None) -> RowChange | None:
    row = new or old
    if row is None or (old and new and encode(list(old.value)) == encode(list(new.value))):
        return None
    before, after = (choice_of(old) if old else None), (choice_of(new) if new else None)
    kind, percent = ("new", None) if old is None else ("gone", None) if new is None else _judge(before, after)
    tokens = tokens_of(row)
    if tokens is None and old is not None:
        tokens = tokens_of(old)
    op = row.op or (old.op if old else "")
    return RowChange(kind, op, tokens, row.key, row.scope, before, after, percent)


def _judge(before: Choice | None, after: Choice | None) -> tuple[str, float | None]:
    if before is None or after is None or before.us is None or after.us is None:
        return "changed", None
    percent = round((before.us - after.us) / before.us * 100.0, 2)
    # Relative to the larger time, so that the verdict is the same whichever of the two states comes first.
    apart = abs(before.us - after.us) / max(before.us, after.us) * 100.0
    if apart <= max(before.noise_percent, after.noise_percent):
        return "changed", percent
    return ("gained" if after.us < before.us else "lost"), percent


def _positive(value: Any) -> float | None:
    """``value`` as a positive finite number; files may hold anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 < value < 1e15 else None

"""Rows of each op, counted over the passes of one start.

A pass loads what an earlier pass of the same start tuned: such a row is counted once, as what it was first. Rows are
told apart by key and scope; where a receipt lists no rows, the counts of the passes are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.report import lenient

COUNTS = ("loaded", "tuned", "default", "failed", "missed")

_WORD = {"loaded": "loaded", "tuned": "tuned", "kept": "tuned", "default": "default", "failed": "failed"}
"""Row states; ``kept`` is an incumbent that was measured again and stays."""


@dataclass
class OpCounts:
    """Rows of one op. The gains are the largest of its rows: measured in this start, and recorded by an earlier one."""

    op: str
    loaded: int = 0
    tuned: int = 0
    default: int = 0
    failed: int = 0
    missed: int = 0
    gain_percent: float | None = None
    recorded_gain_percent: float | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)

    def counts(self) -> tuple[str, ...]:
        """Name and counts, for comparing two ranks."""
        return (self.op, *(str(getattr(self, name)) for name in COUNTS))


def count_ops(receipts: Iterable[Mapping[str, Any]]) -> list[OpCounts]:
    """The ops of all passes of ``receipts``, by name."""
    found: dict[str, OpCounts] = {}
    seen: dict[str, dict[tuple[str, str | None], dict[str, Any]]] = {}
    for receipt in receipts:
        for part in lenient.objects(receipt.get("passes")):
            for data in lenient.objects(part.get("ops")):
                name = lenient.text(data.get("op")) or "unknown"
                _add(found.setdefault(name, OpCounts(name)), data, seen.setdefault(name, {}))
    for name, rows in seen.items():
        _count_rows(found[name], list(rows.values()))
    return [found[name] for name in sorted(found)]


def _add(op: OpCounts, data: Mapping[str, Any], seen: dict[tuple[str, str | None], dict[str, Any]]) -> None:
    op.missed += lenient.count(data.get("missed"))
    rows = [row for row in lenient.objects(data.get("rows")) if lenient.text(row.get("key"))]
    states = [_WORD.get(str(row.get("state"))) for row in rows]
    if len(rows) != sum(lenient.count(data.get(name)) for name in COUNTS[:4]) or None in states:
        for name in COUNTS[:4]:
            setattr(op, name, getattr(op, name) + lenient.count(data.get(name)))
        return
    for row in rows:
        identity = (str(row["key"]), lenient.text(row.get("scope")))
        if row["state"] != "loaded" or identity not in seen:
            seen[identity] = dict(row)


def _count_rows(op: OpCounts, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        word = _WORD[row["state"]]
        setattr(op, word, getattr(op, word) + 1)
        gain = lenient.number(row.get("gain_percent"))
        if gain is None:
            continue
        # A figure beside "recorded" is of the start that made the row, not of this one.
        name = "recorded_gain_percent" if row.get("recorded") or row["state"] == "loaded" else "gain_percent"
        before = getattr(op, name)
        setattr(op, name, gain if before is None else max(before, gain))
    op.rows = rows

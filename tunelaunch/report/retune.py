"""What a retune changed, in a line or two: rows kept, and each changed row with microseconds of the whole op."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunelaunch.report import lenient

NAMED = 3
"""Changed rows that are named; the rest are counted, and ``tunelaunch cache diff`` has them all."""


def retune_lines(report: Mapping[str, Any]) -> list[str]:
    """Lines for a start that measured rows again; none for any other start.

    The time before is the one recorded when the old row was made; both old and new ran in this start, interleaved.
    """
    rows = [
        (lenient.text(op.get("op")) or "unknown", row)
        for op in lenient.objects(report.get("ops"))
        for row in lenient.objects(op.get("rows"))
        if isinstance(row.get("before"), Mapping)
    ]
    if not rows:
        return []
    changed = [(op, row) for op, row in rows if row.get("state") != "kept"]
    head = f"retune: {len(rows) - len(changed)} of {len(rows)} rows kept, {len(changed)} changed"
    if not changed:
        return [head]
    named = "; ".join(_one(op, row) for op, row in changed[:NAMED])
    more = f"; {len(changed) - NAMED} more in: tunelaunch cache diff" if len(changed) > NAMED else ""
    return [f"{head}: {named}{more}"]


def _one(op: str, row: Mapping[str, Any]) -> str:
    before = lenient.mapping(row.get("before"))
    old, new = _us(lenient.mapping(before.get("us")).get("winner")), _us(row.get("us"))
    return f"{op} at {row.get('tokens')} tokens {before.get('tactic')} -> {row.get('tactic')} ({old} -> {new} us)"


def _us(value: Any) -> str:
    number = lenient.number(value)
    return "?" if number is None else f"{number:.1f}"

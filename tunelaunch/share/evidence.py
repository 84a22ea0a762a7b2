"""Which of two rows for one key is kept: by evidence, never by date. Pure.

Guarantees: a row is replaced only by one with stronger evidence; with equal evidence the local row stays; rows that are
usable only as the whole set of one launch (one row a rank) are taken and replaced as whole sets; a quarantined tactic is
never taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from tunelaunch.store import Row
from tunelaunch.store.hidden import hides

UNVERIFIED: Mapping[str, Any] = {"unverified": True}
"""Evidence of a row that must be verified before it serves."""

Hidden = frozenset[tuple[str, "str | None", str, str]]
Identity = tuple[str, "str | None"]


@dataclass(frozen=True)
class Decision:
    """What becomes of incoming rows. ``kept`` counts those that lose to a local row; ``refused`` has a reason each."""

    add: tuple[Row, ...] = ()
    replace: tuple[Row, ...] = ()
    kept: int = 0
    refused: tuple[tuple[Row, str], ...] = field(default=())


def weight(row: Row) -> int:
    """0: nothing known; 1: tuned by somebody; 2: a gain was measured in the layer; 3: and its numbers were checked.

    The default needs no check: it is what the others are checked against.
    """
    evidence = row.evidence
    if not evidence or evidence.get("unverified"):
        return 0
    gain = evidence.get("gain_percent")
    if isinstance(gain, bool) or not isinstance(gain, (int, float)):
        return 1
    return 3 if row.is_default or isinstance(evidence.get("checked"), Mapping) else 2


def marked(row: Row) -> Row:
    """``row`` with a mark that it must be verified before it serves, if it carries no evidence."""
    return row if row.evidence else replace(row, evidence=dict(UNVERIFIED))


def hidden_of(entries: Iterable[Mapping[str, Any]], now: datetime | None = None) -> Hidden:
    """The tactics that quarantine ``entries`` hide: (key, scope, runner, tactic as text). Expired ones hide nothing."""
    moment = (now or datetime.now(timezone.utc)).timestamp()
    return frozenset(
        (str(entry.get("key")), entry.get("scope"), str(entry.get("runner")), repr(_plain(entry.get("tactic"))))
        for entry in entries
        if isinstance(entry.get("scope"), (str, type(None))) and not _expired(entry.get("expires"), moment)
    )


def is_hidden(row: Row, hidden: Hidden) -> bool:
    """Whether the tactic of ``row`` is quarantined."""
    return hides(hidden, row.op, row.key, row.scope, row.runner, _plain(row.tactic))


def decide(local: Sequence[Row], incoming: Sequence[Row], hidden: Hidden = frozenset()) -> Decision:
    """What to do with ``incoming`` rows over ``local`` ones."""
    mine = {row.identity: row for row in local}
    add: list[Row] = []
    swap: list[Row] = []
    kept = 0
    refused: list[tuple[Row, str]] = []
    sets: dict[str, list[Row]] = {}
    for row in incoming:
        there = mine.get(row.identity)
        if is_hidden(row, hidden):
            refused.append((row, "its tactic is quarantined"))
        elif row.set is not None:
            sets.setdefault(str(row.set["id"]), []).append(row)
        elif there is None:
            add.append(row)
        elif there.set is None and weight(row) > weight(there):
            swap.append(row)
        else:
            kept += 1
    for rows in sets.values():
        if not is_whole(rows):
            refused += [(row, "its set of ranks is not whole") for row in rows]
        elif not any(row.identity in mine for row in rows):
            add += rows
        elif _beats(rows, mine):
            swap += rows  # in one write, so that no reader ever sees a part of the set
        else:
            kept += len(rows)
    return Decision(tuple(add), tuple(swap), kept, tuple(refused))


def apply(local: Sequence[Row], decision: Decision) -> tuple[Row, ...]:
    """``local`` after ``decision``."""
    rows = {row.identity: row for row in local}
    rows |= {row.identity: row for row in (*decision.add, *decision.replace)}
    return tuple(rows.values())


def is_whole(rows: Sequence[Row]) -> bool:
    """Whether the rows of one set cover all its ranks."""
    sizes = {row.set["size"] for row in rows if row.set is not None}
    present = {row.set["index"] for row in rows if row.set is not None}
    return (
        len(sizes) == 1 and len(present) == (size := sizes.pop()) and present == set(range(len(present))) and size > 0
    )


def _beats(rows: Sequence[Row], mine: Mapping[Identity, Row]) -> bool:
    """Whether a set that meets local rows replaces them: stronger everywhere, and no local set would be torn."""
    named = {row.identity for row in rows}
    met = [mine[identity] for identity in named if identity in mine]
    touched = {str(row.set["id"]) for row in met if row.set is not None}
    torn = any(
        row.set is not None and str(row.set["id"]) in touched and row.identity not in named for row in mine.values()
    )
    return not torn and min(map(weight, rows)) > max(map(weight, met))


def _expired(value: Any, moment: float) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value < moment
    if not isinstance(value, str):
        return False
    try:
        time = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False  # a date that nobody can read does not lift a quarantine
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() < moment


def _plain(tactic: Any) -> Any:
    """Tuples as lists: JSON knows no other."""
    return [_plain(item) for item in tactic] if isinstance(tactic, (list, tuple)) else tactic

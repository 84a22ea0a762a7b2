"""What a table becomes when rows are published into it. Pure: no disk, no clock.

Guarantees: a row that the writer does not name is never dropped or changed, with one exception: rows of a *set* (those of
all ranks of one launch) stand or fall together, so that a table never mixes the ranks of two launches. Without
``replace`` the first writer wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .rows import Identity, Row

Rows = dict[Identity, Row]


@dataclass(frozen=True)
class Merge:
    """The rows after a merge and what happened to them.

    ``added``, ``replaced``, ``removed`` and ``kept`` count rows: new, changed, gone, and left as they were.
    ``refused`` are identities whose removal was asked for but is not possible (pinned, or in a read-only table).
    ``partial`` are ids of published sets that lack ranks and were dropped because they would have replaced whole rows.
    """

    rows: tuple[Row, ...]
    added: int
    replaced: int
    removed: int
    kept: int
    refused: tuple[Identity, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything has to be written."""
        return bool(self.added or self.replaced or self.removed)


def merge(
    existing: Sequence[Row],
    incoming: Iterable[Row],
    *,
    replace: bool = False,
    remove: Iterable[Identity] = (),
    pinned: bool = False,
    below: Sequence[Row] = (),
) -> Merge:
    """Merge ``incoming`` into ``existing``.

    ``below`` are rows of a read-only table that show through wherever ``existing`` has none: they count as existing,
    but only what differs from them is written on top. A published set takes the place of every set that it shares a key
    with, or is dropped whole; a set on disk that lacks ranks is of no use to anyone and gives way to a whole one.
    """
    lower = {row.identity: row for row in below}
    before = {row.identity: row for row in overlay(below, existing)}
    after = dict(before)
    refused = []
    for identity in dict.fromkeys((key, scope) for key, scope in remove):
        if identity not in after:
            continue
        if pinned or identity in lower:
            refused.append(identity)
        else:
            del after[identity]
    partial = []
    for unit in _units(incoming):
        if not _place(unit, after, replace, before if pinned else {}):
            partial.append(str(set_id(unit[0])))
    changed = {identity for identity in before.keys() & after.keys() if before[identity] != after[identity]}
    written = {row.identity for row in existing} | changed
    return Merge(
        # What only shows through from below is not written again; a hidden row of a broken set does not show through.
        rows=tuple(row for identity, row in after.items() if identity in written or identity not in before),
        added=len(after.keys() - before.keys()),
        replaced=len(changed),
        removed=len(before.keys() - after.keys()),
        kept=len(before.keys() & after.keys()) - len(changed),
        refused=tuple(refused),
        partial=tuple(partial),
    )


def overlay(below: Sequence[Row], above: Sequence[Row]) -> tuple[Row, ...]:
    """``below`` with the rows of ``above`` on top; a set of ``below`` that loses a row to another set is left out."""
    lower = {row.identity: row for row in below}
    upper = {row.identity: row for row in above}
    covered = lower.keys() & upper.keys()
    broken = {name for i in covered if (name := set_id(lower[i])) is not None and name != set_id(upper[i])}
    return tuple(({i: row for i, row in lower.items() if set_id(row) not in broken} | upper).values())


def set_id(row: Row) -> str | None:
    """The set that ``row`` is part of, or ``None`` for one that is usable alone."""
    return None if row.set is None else str(row.set["id"])


def whole(rows: Iterable[Row]) -> bool:
    """Whether ``rows``, all of one set, have every rank of it."""
    found = [row.set for row in rows if row.set is not None]
    ranks = {part["index"] for part in found}
    # Not compared with range(size): a size from disk can be any number.
    return not found or (len(ranks) == found[0]["size"] and min(ranks) == 0 and max(ranks) == len(ranks) - 1)


def _units(incoming: Iterable[Row]) -> list[list[Row]]:
    """What is placed together: the rows of a set, or one row without a set; in order of first mention."""
    units: list[list[Row]] = []
    sets: dict[str, list[Row]] = {}
    for row in incoming:
        name = set_id(row)
        if name is None:
            units.append([row])
        elif name in sets:
            sets[name].append(row)
        else:
            units.append(sets.setdefault(name, [row]))
    return units


def _place(unit: list[Row], after: Rows, replace: bool, protected: Rows) -> bool:
    """Put ``unit`` into ``after``, or leave ``after`` as it is; ``False`` if that is because ranks are missing."""
    name = set_id(unit[0])
    # A row without a set meets its own earlier self here: an ordinary replacement.
    rivals = [there for row in unit if (there := after.get(row.identity)) and (name is None or set_id(there) != name)]
    groups = [_group(rival, after) for rival in rivals]
    losing = {identity: row for group in groups for identity, row in group.items()}
    weak = all(set_id(rival) and not whole(group.values()) for rival, group in zip(rivals, groups, strict=True))
    mine = [*unit, *(row for row in after.values() if name is not None and set_id(row) == name)]
    if losing.keys() & protected.keys() or (losing and not replace and not (weak and whole(mine))):
        return True
    if losing and not weak and not whole(mine):
        return False
    for identity in losing:
        del after[identity]
    for row in unit:
        if row.identity not in after or (replace and row.identity not in protected):
            after[row.identity] = row
    return True


def _group(row: Row, rows: Rows) -> Rows:
    """``row`` with the rest of its set."""
    name = set_id(row)
    return {row.identity: row} if name is None else {i: other for i, other in rows.items() if set_id(other) == name}

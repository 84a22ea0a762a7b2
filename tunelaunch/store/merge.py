"""What a table becomes when rows are published into it. Pure: no disk, no clock.

Guarantees: a row that the writer does not name is never dropped or changed; without ``replace`` the first writer wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .rows import Identity, Row


@dataclass(frozen=True)
class Merge:
    """The rows after a merge and what happened to them.

    ``added``, ``replaced``, ``removed`` and ``kept`` count rows: new, changed, gone, and left as they were.
    ``refused`` are identities whose removal was asked for but is not possible (pinned, or in a read-only table).
    """

    rows: tuple[Row, ...]
    added: int
    replaced: int
    removed: int
    kept: int
    refused: tuple[Identity, ...] = ()

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
    but only what differs from them is written on top.
    """
    lower = {row.identity: row for row in below}
    before = lower | {row.identity: row for row in existing}
    after = dict(before)
    refused = []
    for identity in dict.fromkeys((key, scope) for key, scope in remove):
        if identity not in after:
            continue
        if pinned or identity in lower:
            refused.append(identity)
        else:
            del after[identity]
    for row in incoming:
        if row.identity not in after or (replace and not (pinned and row.identity in before)):
            after[row.identity] = row
    changed = {identity for identity in before.keys() & after.keys() if before[identity] != after[identity]}
    above = {row.identity for row in existing}
    return Merge(
        rows=tuple(
            row for identity, row in after.items() if identity in above or identity not in lower or identity in changed
        ),
        added=len(after.keys() - before.keys()),
        replaced=len(changed),
        removed=len(before.keys() - after.keys()),
        kept=len(before.keys() & after.keys()) - len(changed),
        refused=tuple(refused),
    )


def overlay(below: Sequence[Row], above: Sequence[Row]) -> tuple[Row, ...]:
    """``below`` with the rows of ``above`` on top."""
    return tuple(({row.identity: row for row in below} | {row.identity: row for row in above}).values())

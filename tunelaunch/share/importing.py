"""Shared tables into the store: decided first, then done, and undone as a whole if it cannot be finished.

Guarantees: :func:`plan` only reads; :func:`carry_out` adds what no local row covers (a row that another process wrote
meanwhile stays), replaces what has weaker evidence, and merges quarantines; if one table cannot be written, those that
were are put back byte for byte. A table is written under the identity that its own fields have, so rows of another
environment never reach this one's table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunelaunch.errors import ShareError
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import Decision, decide, hidden_of, is_hidden, marked
from tunelaunch.share.undo import Snapshot
from tunelaunch.store import Published, Row, Store, TableId
from tunelaunch.store.files import read
from tunelaunch.store.jsontext import encode
from tunelaunch.store.table import SCHEMA, is_foreign


@dataclass(frozen=True)
class TablePlan:
    """What an import does to one table."""

    table: SharedTable
    decision: Decision
    quarantine: tuple[dict[str, Any], ...]
    """Entries that are new here."""
    lifted: int = 0
    """Local rows that the new entries hide from now on."""

    def to_json(self) -> dict[str, Any]:
        """Counts, for programs."""
        reasons = Counter(why for _, why in self.decision.refused)
        return {
            "device": self.table.tid.device,
            "environment": self.table.tid.environment,
            "added": len(self.decision.add),
            "replaced": len(self.decision.replace),
            "kept": self.decision.kept,
            "refused": len(self.decision.refused),
            "reasons": dict(sorted(reasons.items())),
            "quarantined": len(self.quarantine),
            "hidden": self.lifted,
        }


def plan(store: Store, tables: Iterable[SharedTable]) -> tuple[TablePlan, ...]:
    """What importing ``tables`` would do to ``store``; nothing is changed. Raises :class:`ShareError`."""
    return tuple(_plan(store, table) for table in tables)


def carry_out(store: Store, plans: Sequence[TablePlan], launch: str) -> None:
    """Do what ``plans`` say; raises :class:`ShareError`, the store as it was, if one of them cannot be done."""
    if store.writable_root is None and any(_changes(step) for step in plans):
        raise ShareError(f"{store.root} cannot be written; nothing was imported")
    done: list[Snapshot] = []
    try:
        for step in plans:
            if _changes(step):
                done.append(Snapshot.take(store, step.table.tid))
                _write(store, step, launch)
                done[-1].note_after()
    except BaseException as error:
        left = [str(path) for snapshot in reversed(done) for path in snapshot.restore()]
        state = f"these could not be put back: {', '.join(left)}" if left else "the store is as it was"
        if isinstance(error, ShareError):
            raise ShareError(f"{error}; {state}") from error
        raise


def _plan(store: Store, table: SharedTable) -> TablePlan:
    there = read(store.paths(table.tid).table).value
    schema = there.get("schema") if isinstance(there, dict) else None
    if is_foreign(schema, SCHEMA):
        raise ShareError(f"the local table {table.tid} has schema {schema}: update tunelaunch; nothing was imported")
    loaded = store.load(table.tid).table
    local = loaded.rows if loaded else ()
    known = store.read_quarantine(table.tid)
    named = {_entry_identity(entry) for entry in known}
    fresh = tuple(dict(entry) for entry in table.quarantine if _entry_identity(entry) not in named)
    hidden = hidden_of((*known, *table.quarantine))
    decision = decide(local, [marked(row) for row in table.rows], hidden)
    if loaded is not None and loaded.pinned and decision.replace:
        decision = Decision(decision.add, (), decision.kept + len(decision.replace), decision.refused)
    newly = hidden_of(fresh)
    return TablePlan(table, decision, fresh, sum(1 for row in local if is_hidden(row, newly)))


def _write(store: Store, step: TablePlan, launch: str) -> None:
    tid, decision = step.table.tid, step.decision
    # The local record of the environment stays: what is not decisive (driver, host) is this host's own.
    fields = store.read_environment(tid) or step.table.fields
    for rows, replace in ((decision.add, False), (decision.replace, True)):
        if rows:
            _expect(store.publish(tid, rows, environment=fields, replace=replace, launch=launch), tid, rows)
    if step.quarantine and (problems := store.add_quarantine(tid, step.quarantine)):
        raise ShareError(f"the quarantine of {tid} cannot be written ({problems[0]})")


def _expect(published: Published, tid: TableId, rows: Sequence[Row]) -> None:
    if published.generation is None:
        why = "; ".join(map(str, published.problems)) or "no reason is known"
        raise ShareError(f"{tid} cannot be written ({why})")
    if left_out := [p for p in published.problems if p.action == "not published"]:
        raise ShareError(f"{len(left_out)} of {len(rows)} rows of {tid} cannot be written ({left_out[0]})")


def _changes(step: TablePlan) -> bool:
    return bool(step.decision.add or step.decision.replace or step.quarantine)


def _entry_identity(entry: Any) -> bytes:
    return encode([entry.get(name) for name in ("key", "scope", "runner", "tactic")])


def report_lines(plans: Sequence[TablePlan], *, done: bool) -> list[str]:
    """One line for each table, and one for each reason of a refusal."""
    lines = []
    for step in plans:
        counts = step.to_json()
        verb = "" if done else "would be "
        line = (
            f"{step.table.tid}: {counts['added']} rows {verb}added, {counts['replaced']} {verb}replaced (more evidence), "
            f"{counts['kept']} kept as they are here, {counts['refused']} refused"
        )
        lines.append(line + (f", {counts['quarantined']} tactics quarantined" if counts["quarantined"] else ""))
        lines += [f"  {number} refused: {why}" for why, number in counts["reasons"].items()]
    return lines or ["nothing to import"]


def root_of(store: Store) -> Path:
    """Where the rows go."""
    return store.writable_root or store.root

"""The store: tables, reports and quarantine under one root.

Guarantees
- No fault of the file system raises out of a method: it becomes a :class:`Problem`. Only programming errors raise.
- Writers that work at the same time lose none of each other's rows; a kill leaves the old generation or the new one.
- A row, a file or a field that this version does not know is never dropped.
- Where the root cannot be written, it is still read, and writes go to the overlay, if one was given. That holds for a
  root that could be written at first, too (a disk that fills up, a mount that turns read-only).
"""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import envfile, holdings, removal, reports, users
from .identity import TableId
from .layout import Layout, TablePaths
from .notes import QUARANTINE, WANTED, NoteFile, NoteKind
from .outcome import Loaded, Published
from .problems import Problem
from .root import absolute, prepare
from .rows import Identity, Row
from .scan import TableInfo, scan
from .tablefile import TableFile

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


class Store:
    """Tables under a root. Cheap to make; holds no file open and no lock between calls."""

    def __init__(
        self,
        root: Path,
        *,
        below: Path | None = None,
        spare: Path | None = None,
        writable: bool = True,
        problems: Iterable[Problem] = (),
    ) -> None:
        """Use ``root`` as it is, without looking. See :meth:`open`.

        ``below`` is a root that is only read; ``spare`` is where to go on when the disk of ``root`` fills up.
        """
        self.root = root
        self.problems: list[Problem] = list(problems)
        self._layout = Layout(root)
        self._below = Layout(below) if below is not None else None
        self._spare = spare
        self._writable = writable

    @classmethod
    def open(cls, root: str | Path, *, overlay: str | Path | None = None, readonly: bool = False) -> Store:
        """The store at ``root``, which is made if need be.

        If it cannot be written, writes go to ``overlay`` and both are read; without an overlay nothing is written.
        ``readonly`` asks for that: nothing is made, moved or written. ``problems`` of the result says which it is.
        Raises :class:`ValueError` for an empty path only.
        """
        top = absolute(root)
        if readonly:
            return cls(top, writable=False)
        writable, problems = prepare(top)
        if writable:
            return cls(top, spare=absolute(overlay) if overlay is not None else None, problems=problems)
        if overlay is None:
            return cls(
                top,
                writable=False,
                problems=[*problems, Problem(str(top), "no other place is known", "nothing is kept")],
            )
        second = absolute(overlay)
        writable, more = prepare(second)
        if not writable:
            return cls(top, writable=False, problems=[*problems, *more])
        note = Problem(str(top), "rows there are read", f"new ones are written to {second} instead")
        return cls(second, below=top, problems=[*problems, *more, note])

    @property
    def writable_root(self) -> Path | None:
        """Where writes go, or ``None`` if nothing is written."""
        return self.root if self._writable else None

    @property
    def roots(self) -> tuple[Path, ...]:
        """The roots that are read; a row in an earlier one wins."""
        return tuple(layout.root for layout in self._layouts)

    @property
    def _layouts(self) -> tuple[Layout, ...]:
        return (self._layout,) if self._below is None else (self._layout, self._below)

    def paths(self, tid: TableId) -> TablePaths:
        """The files of ``tid`` in the root that is written (or read, where nothing is written)."""
        return self._layout.table(tid)

    # Tables

    def load(self, tid: TableId) -> Loaded:
        """The current table. Damage is a miss: the file is set aside where possible, single bad rows are left out."""
        return self._table(tid).load()

    def publish(
        self,
        tid: TableId,
        rows: Sequence[Row],
        *,
        environment: Mapping[str, Any],
        replace: bool = False,
        launch: str = "",
        remove: Sequence[Identity] = (),
    ) -> Published:
        """Merge ``rows`` into the table and write the next generation; the earlier bytes go to the history.

        Existing rows are kept (the first writer wins) unless ``replace``; ``remove`` names rows to drop first. Rows of
        a pinned table are neither replaced nor removed. If nothing changes, nothing is written. Rows of a set replace
        every set that they share a key with, or are dropped whole. On a disk that is full the overlay takes the rows.
        """
        rows, remove = list(rows), list(remove)

        def attempt() -> Published:
            table = self._table(tid)
            return table.publish(rows, environment=environment, replace=replace, launch=launch, remove=remove)

        done = attempt()
        if done.generation is None and (moved := self._move_to_spare(done.problems)):
            done = attempt()
            done = dataclasses.replace(done, problems=(*moved, *done.problems))
        return done

    def pin(self, tid: TableId, pinned: bool = True) -> Published:
        """Set or lift the protection of existing rows; a generation of its own."""
        return self._table(tid).pin(pinned)

    def tables(self) -> list[TableInfo]:
        """All tables of all roots that are read."""
        return [info for layout in self._layouts for info in scan(layout)]

    def history(self, tid: TableId) -> list[int]:
        """The earlier generations that can be restored, oldest first."""
        return self._table(tid).history()

    def generation(self, tid: TableId, number: int) -> Loaded:
        """Generation ``number`` as it was, current or kept. No table and no problem: it is not kept."""
        return self._table(tid).generation(number)

    def holdings(self) -> list[holdings.Holding]:
        """All tables of all roots that are read, with sizes, ages, users and quarantined tactics."""
        return [found for layout in self._layouts for found in holdings.holdings(layout)]

    def remove(self, tid: TableId, *, force: bool = False) -> removal.Removed:
        """Remove a whole table: rows, history, quarantine. One that is pinned or in use stays, unless ``force``."""
        if not self._writable:
            return removal.Removed(False, Problem(str(self.root), "is not written", "nothing removed"))
        return removal.remove(self._layout, tid, force=force)

    # Use

    def mark_in_use(self, tid: TableId, launch: str, pid: int) -> Problem | None:
        """Say that ``launch``, process ``pid`` of this host, uses the table, so that nobody prunes it; before a load.

        Returns what went wrong: a mark that cannot be made is no reason not to use the table.
        """
        return users.mark(self.paths(tid), self.root, launch, pid) if self._writable else None

    def release(self, tid: TableId, launch: str) -> None:
        """Take that mark away. Without it the mark ends with its process."""
        for layout in self._layouts if self._writable else ():
            users.release(layout.table(tid), launch)

    def users(self, tid: TableId) -> tuple[users.User, ...]:
        """The launches that use the table now."""
        return tuple(user for layout in self._layouts for user in users.users(layout.table(tid), layout.root))

    def rollback(self, tid: TableId, generation: int | None = None) -> Published:
        """Make ``table.json`` byte for byte what it was in ``generation`` (``None``: before the current one).

        The state before goes to the history, so that this can be undone the same way.
        """
        return self._table(tid).rollback(generation)

    def read_environment(self, tid: TableId) -> Mapping[str, Any] | None:
        """The fields that :meth:`publish` was given as ``environment``, or ``None``."""
        found = (envfile.fields_of(layout, tid) for layout in self._layouts)
        return next((fields for fields in found if fields is not None), None)

    # Reports

    def launches(self) -> list[str]:
        """Ids of the starts that left a report, newest first."""
        return [name for layout in self._layouts for name in reports.launches(layout)]

    def write_report(self, launch: str, report: Mapping[str, Any]) -> Path | None:
        """Keep the report of a start (the newest 50 stay); ``None`` where nothing can be written."""
        return None if self.writable_root is None else reports.write_report(self._layout, launch, report, self.problems)

    def read_report(self, launch: str | None = None) -> Mapping[str, Any] | None:
        """The report of ``launch``, or of the newest start."""
        for layout in sorted(self._layouts, key=reports.newest_time, reverse=True):
            if (found := reports.read_report(layout, launch)) is not None:
                return found
        return None

    # Quarantine and wish list

    def read_quarantine(self, tid: TableId) -> list[Mapping[str, Any]]:
        """All entries of all roots, expired ones too (whoever uses them judges that)."""
        return self._read_notes(QUARANTINE, tid)

    def add_quarantine(self, tid: TableId, entries: Sequence[Mapping[str, Any]]) -> tuple[Problem, ...]:
        """Add entries; one with the same key, scope, runner and tactic is replaced. Returns what went wrong."""
        return self._add_notes(QUARANTINE, tid, entries)

    def lift_quarantine(self, tid: TableId, predicate: Callable[[Mapping[str, Any]], bool]) -> int:
        """Remove the entries for which ``predicate`` holds; returns how many."""
        note = self._note(QUARANTINE, tid, self._layout)
        return note.lift(predicate, self.problems) if self._writable else 0

    def read_wanted(self, tid: TableId) -> list[Mapping[str, Any]]:
        """Shapes that serving met and no row covers."""
        return self._read_notes(WANTED, tid)

    def add_wanted(self, tid: TableId, shapes: Sequence[Mapping[str, Any]]) -> tuple[Problem, ...]:
        """Add shapes; one with the same op, scope, bucket and shapes is replaced. Returns what went wrong."""
        return self._add_notes(WANTED, tid, shapes)

    def lift_wanted(self, tid: TableId, predicate: Callable[[Mapping[str, Any]], bool]) -> int:
        """Remove the shapes for which ``predicate`` holds; returns how many."""
        note = self._note(WANTED, tid, self._layout)
        return note.lift(predicate, self.problems) if self._writable else 0

    def _table(self, tid: TableId) -> TableFile:
        return TableFile(tid, self._layout, self._below, self._writable)

    def _note(self, kind: NoteKind, tid: TableId, layout: Layout) -> NoteFile:
        paths = layout.table(tid)
        path = paths.quarantine if kind is QUARANTINE else paths.wanted
        return NoteFile(kind, path, paths.lock, layout.root, writable=self._writable and layout is self._layout)

    def _read_notes(self, kind: NoteKind, tid: TableId) -> list[Mapping[str, Any]]:
        found: dict[bytes, Mapping[str, Any]] = {}
        for layout in reversed(self._layouts):
            note = self._note(kind, tid, layout)
            found |= {note.key(entry): entry for entry in note.read(self.problems)}
        return list(found.values())

    def _add_notes(self, kind: NoteKind, tid: TableId, entries: Sequence[Mapping[str, Any]]) -> tuple[Problem, ...]:
        if not self._writable:
            return (Problem(str(self.root), "is not written", "nothing kept"),)
        problems: list[Problem] = []
        self._note(kind, tid, self._layout).add(entries, problems)
        if moved := self._move_to_spare(problems):
            problems = list(moved)
            self._note(kind, tid, self._layout).add(entries, problems)
        return tuple(problems)

    def _move_to_spare(self, problems: Sequence[Problem]) -> tuple[Problem, ...]:
        """If ``problems`` say that the disk is full: write to the overlay from now on, and what to say about it."""
        full = next((problem for problem in problems if problem.code in _FULL), None)
        if full is None or self._spare is None:
            return ()
        spare, self._spare = self._spare, None
        writable, more = prepare(spare)
        if not writable:
            return ()
        self.problems += more
        self._layout, self._below, self.root = Layout(spare), self._layout, spare
        action = f"rows there are read, new ones are written to {spare} instead"
        return (dataclasses.replace(full, action=action),)

"""One table on disk: load, publish, pin, roll back.

Guarantees: the generation number only counts up; the bytes of every replaced generation are in the history before the
new ones are in place; the history number that a generation was made from is recorded in ``written["after"]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from . import envfile, history
from .commit import Change, Target, examine, look, update
from .files import Content, read_bytes
from .identity import TableId
from .jsontext import encode
from .layout import MAX_GENERATION, Layout, TablePaths
from .merge import merge, overlay
from .outcome import Loaded, Published
from .problems import Problem, Refused
from .rows import Identity, Row
from .table import Parsed, Table, parse


@dataclass(frozen=True)
class TableFile:
    """Table ``tid`` in ``layout``, on top of the same table in the read-only ``below``, if there is one."""

    tid: TableId
    layout: Layout
    below: Layout | None = None
    writable: bool = True

    @property
    def _layouts(self) -> list[Layout]:
        return [layout for layout in (self.layout, self.below) if layout is not None]

    @property
    def paths(self) -> TablePaths:
        """The files that are written."""
        return self.layout.table(self.tid)

    def load(self) -> Loaded:
        """The current table; see :meth:`Store.load`."""
        problems: list[Problem] = []
        if self.writable:
            content = look(self._target(self.layout), problems)
            problems += [content.problem] if content.problem else []
            parsed = self._parse(content)
            problems += parsed.problems
            top = parsed.table
        else:
            top = self._peek(self.layout, problems)
        below = self._peek(self.below, problems)
        if top is None or below is None:
            return Loaded(top or below, tuple(problems))
        merged = dataclasses.replace(
            top,
            generation=max(top.generation, below.generation),
            rows=overlay(below.rows, top.rows),
            pinned=top.pinned or below.pinned,
            extra={**below.extra, **top.extra},
        )
        return Loaded(merged, tuple(problems))

    def publish(
        self,
        rows: Iterable[Row],
        *,
        environment: Mapping[str, Any],
        replace: bool,
        launch: str,
        remove: Sequence[Identity],
    ) -> Published:
        """Merge rows in; see :meth:`Store.publish`."""
        problems: list[Problem] = []
        good = [row for row in rows if self._usable(row, problems)]
        below = self._peek(self.below, problems)

        def change(content: Content) -> Change[Published]:
            parsed = self._parse_to_replace(content)
            base = parsed.table
            merged = merge(
                base.rows if base else (),
                good,
                replace=replace,
                remove=remove,
                pinned=bool((base and base.pinned) or (below and below.pinned)),
                below=below.rows if below else (),
            )
            found = parsed.problems + tuple(
                Problem(str(self.paths.table), f"row {key[:120]} cannot be removed (pinned or read-only)", "kept")
                for key, _ in merged.refused
            )
            found += tuple(
                Problem(str(self.paths.table), f"rows of set {name} lack ranks", "not published; whole rows are kept")
                for name in merged.partial
            )
            current = base or below
            outcome = Published(
                current.generation if current else 0,
                merged.added,
                merged.replaced,
                merged.kept,
                str(self.paths.table),
                found,
                merged.removed,
            )
            if not merged.changes:
                repair = (lambda: envfile.keep(self.layout, self.tid, environment, absent_only=True)) if base else None
                return Change(None, outcome, repair)
            floor = below.generation if below else 0
            return self._next(content, base, merged.rows, launch, outcome, environment=environment, floor=floor)

        return self._update(change, problems)

    def pin(self, pinned: bool) -> Published:
        """Set or lift the protection of rows."""

        def change(content: Content) -> Change[Published]:
            parsed = self._parse_to_replace(content)
            base = parsed.table
            if base is None:
                raise Refused(Problem(str(self.paths.table), "there is no table to pin", "nothing done"))
            outcome = Published(base.generation, 0, 0, len(base.rows), str(self.paths.table), parsed.problems)
            if base.pinned == pinned:
                return Change(None, outcome)
            return self._next(content, base, base.rows, "", outcome, pinned=pinned)

        return self._update(change, [])

    def rollback(self, generation: int | None) -> Published:
        """Restore earlier bytes; see :meth:`Store.rollback`."""

        def change(content: Content) -> Change[Published]:
            base = self._parse_to_replace(content).table
            number = generation if generation is not None else self._previous(base)
            target, raw = self._stored(number, base, content)
            before = {row.identity: row for row in base.rows} if base else {}
            after = {row.identity: row for row in target.rows}
            kept = sum(1 for identity, row in after.items() if before.get(identity) == row)
            added, removed = len(after.keys() - before.keys()), len(before.keys() - after.keys())
            replaced = len(after) - added - kept
            outcome = Published(target.generation, added, replaced, kept, str(self.paths.table), (), removed)
            if raw == content.raw:
                return Change(None, outcome)
            slot = history.slot_for(self.paths, base.generation, content.raw) if base and content.raw else None
            return Change(raw, outcome, lambda: self._keep_state(slot, content.raw))

        return self._update(change, [])

    def history(self) -> list[int]:
        """Generations that can be restored, oldest first."""
        return sorted({n for layout in self._layouts for n in history.generations(layout.table(self.tid))})

    def generation(self, number: int) -> Loaded:
        """Generation ``number``, current or kept; see :meth:`Store.generation`."""
        problems: list[Problem] = []
        current = self._peek(self.layout, problems) or self._peek(self.below, problems)
        if current is not None and current.generation == number:
            return Loaded(current, tuple(problems))
        for layout in self._layouts:
            kept = history.load(layout, self.tid, number)
            if kept.table is not None or kept.problems:
                return kept
        return Loaded(None, ())

    # Parts of a write

    def _next(
        self,
        content: Content,
        base: Table | None,
        rows: tuple[Row, ...],
        launch: str,
        outcome: Published,
        *,
        environment: Mapping[str, Any] | None = None,
        floor: int = 0,
        pinned: bool | None = None,
    ) -> Change[Published]:
        """The change that makes ``rows`` the next generation after ``base``, which was read as ``content``."""
        slot = history.slot_for(self.paths, base.generation, content.raw) if base and content.raw is not None else None
        number = max([floor, slot or 0, base.generation if base else 0, *history.generations(self.paths)]) + 1
        if number > MAX_GENERATION:
            raise Refused(Problem(str(self.paths.table), "its generation numbers are used up", "nothing written"))
        written = {"at": datetime.now(timezone.utc).isoformat(timespec="seconds"), "launch": launch, "after": slot}
        table = Table(
            self.tid.device,
            self.tid.environment,
            number,
            rows,
            written=written,
            pinned=pinned if pinned is not None else bool(base and base.pinned),
            extra=base.extra if base else {},
        )

        def keep() -> None:
            self._keep_state(slot, content.raw)
            if environment is not None:
                envfile.keep(self.layout, self.tid, environment)

        return Change(table.to_bytes(), dataclasses.replace(outcome, generation=number), keep)

    def _keep_state(self, slot: int | None, raw: bytes | None) -> None:
        if slot is not None and raw is not None:
            history.keep(self.paths, slot, raw, self.layout.root)
            history.prune(self.paths, protect=slot)

    def _previous(self, base: Table | None) -> int:
        """The history number that the current table was made from."""
        numbers = self.history()
        after = base.written.get("after") if base else None
        if type(after) is int and after in numbers:
            return after
        earlier = [number for number in numbers if base is None or number < base.generation]
        if not earlier:
            raise Refused(Problem(str(self.paths.table), "there is no earlier generation", "nothing done"))
        return earlier[-1]

    def _stored(self, number: int, base: Table | None, content: Content) -> tuple[Table, bytes]:
        """Table and bytes of a kept generation (or of the current one)."""
        if base is not None and number == base.generation and content.raw is not None and number not in self.history():
            return base, content.raw
        for layout in self._layouts:
            kept = history.load(layout, self.tid, number)
            raw = read_bytes(layout.table(self.tid).generation(number))
            if kept.table is not None and raw is not None:
                return kept.table, raw
            if kept.problems:
                raise Refused(dataclasses.replace(kept.problems[0], action="not restored; choose another generation"))
        known = ", ".join(map(str, self.history())) or "none"
        raise Refused(Problem(str(self.paths.history), f"has no generation {number} (kept: {known})", "nothing done"))

    def _update(self, change: Callable[[Content], Change[Published]], problems: list[Problem]) -> Published:
        if not self.writable:
            problems.append(Problem(str(self.layout.root), "is not written", "nothing kept"))
            return Published(None, 0, 0, 0, None, tuple(problems))
        made = update(self._target(self.layout), change, problems)
        if made is None:
            return Published(None, 0, 0, 0, None, tuple(problems))
        return dataclasses.replace(made.outcome, problems=(*problems, *made.outcome.problems))

    # Parts of a read

    def _peek(self, layout: Layout | None, problems: list[Problem]) -> Table | None:
        """The table of a root that is only read: nothing is moved there."""
        if layout is None:
            return None
        path = layout.table(self.tid).table
        content = examine(self._target(layout))
        problems += [content.problem] if content.problem else []
        if content.raw is None:
            return None
        parsed = parse(content.value, self.tid, str(path))
        problems += parsed.problems
        return parsed.table

    def _parse(self, content: Content) -> Parsed:
        return parse(content.value, self.tid, str(self.paths.table)) if content.raw is not None else Parsed()

    def _parse_to_replace(self, content: Content) -> Parsed:
        """Raises :class:`Refused` for a table of another version: replacing it would drop what it says."""
        parsed = self._parse(content)
        if parsed.foreign:
            raise Refused(
                dataclasses.replace(parsed.problems[0], action="left in place, nothing written; update tunelaunch")
            )
        return parsed

    def _target(self, layout: Layout) -> Target:
        paths = layout.table(self.tid)

        def judge(value: Any) -> tuple[str, Problem] | None:
            parsed = parse(value, self.tid, str(paths.table))
            return (parsed.damage, parsed.problems[0]) if parsed.damage else None

        return Target(paths.table, paths.lock, layout.root, judge)

    def _usable(self, row: Row, problems: list[Problem]) -> bool:
        try:
            row.check()
            encode(row.to_json())
        except ValueError as error:
            problems.append(Problem(str(self.paths.table), f"row {str(row.key)[:120]}: {error}", "not published"))
            return False
        return True

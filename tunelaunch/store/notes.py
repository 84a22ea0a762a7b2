"""The list files beside a table: ``quarantine.json`` and ``wanted.json``.

Each is an object with a schema and one list of free-form entries. Guarantees: entries of others, and fields that this
version does not know, are never dropped by adding; a damaged file is set aside; a file of a newer schema is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .commit import Change, Target, examine, look, update
from .files import Content
from .jsontext import MAX_DEPTH, encode, jsonable, too_deep
from .problems import Problem, Refused
from .table import is_foreign

MAX_ENTRIES = 10_000
"""Beyond that the oldest go: a list that only grows would end as the slowest part of a start."""


@dataclass(frozen=True)
class NoteKind:
    """A kind of list file: its schema, the name of its list, and the fields that make two entries the same one."""

    schema: str
    entries: str
    identity: tuple[str, ...]


QUARANTINE = NoteKind("tunelaunch/quarantine/1", "entries", ("key", "scope", "runner", "tactic"))
WANTED = NoteKind("tunelaunch/wanted/1", "shapes", ("op", "scope", "bucket", "shapes"))


@dataclass(frozen=True)
class NoteFile:
    """One list file under a root."""

    kind: NoteKind
    path: Path
    lock: Path
    root: Path
    writable: bool = True

    def read(self, problems: list[Problem]) -> list[dict[str, Any]]:
        """The entries, oldest first. Never raises; what is odd goes to ``problems``."""
        content = look(self._target, problems) if self.writable else examine(self._target)
        if content.problem:
            problems.append(content.problem)
        try:
            return self._entries(content)
        except Refused as refused:
            problems.append(refused.problem)
            return []

    def add(self, entries: Iterable[Mapping[str, Any]], problems: list[Problem]) -> int:
        """Add entries; one that is there already is replaced. Returns how many of them are on disk now."""
        fresh = []
        for entry in entries:
            if not isinstance(entry, Mapping) or too_deep(entry, MAX_DEPTH - 4):
                problems.append(Problem(str(self.path), "an entry is no object, or nested too deeply", "left out"))
            else:
                fresh.append(jsonable(entry))

        def change(content: Content) -> Change[int]:
            before = self._entries(content)
            after = list(({self.key(e): e for e in before} | {self.key(e): e for e in fresh}).values())[-MAX_ENTRIES:]
            return Change(self._data(content, before, after), len(fresh))

        made = update(self._target, change, problems)
        return made.outcome if made else 0

    def lift(self, predicate: Callable[[Mapping[str, Any]], bool], problems: list[Problem]) -> int:
        """Remove the entries for which ``predicate`` holds; returns how many."""
        if not self.path.exists():
            return 0

        def change(content: Content) -> Change[int]:
            before = self._entries(content)
            after = [entry for entry in before if not predicate(entry)]
            return Change(self._data(content, before, after), len(before) - len(after))

        made = update(self._target, change, problems)
        return made.outcome if made else 0

    def key(self, entry: Mapping[str, Any]) -> bytes:
        """What makes two entries the same one."""
        return encode([entry.get(name) for name in self.kind.identity])

    @property
    def _target(self) -> Target:
        return Target(self.path, self.lock, self.root, self._judge)

    def _judge(self, value: Any) -> tuple[str, Problem] | None:
        if isinstance(value, Mapping) and is_foreign(value.get("schema"), self.kind.schema):
            return None
        if not isinstance(value, Mapping) or value.get("schema") != self.kind.schema:
            return "no-schema", Problem(str(self.path), f"has no schema {self.kind.schema}", "not used")
        if not isinstance(value.get(self.kind.entries), list):
            return "no-list", Problem(str(self.path), f"has no list of {self.kind.entries}", "not used")
        return None

    def _entries(self, content: Content) -> list[dict[str, Any]]:
        if content.raw is None:
            return []
        if is_foreign(content.value.get("schema"), self.kind.schema):
            why = f"has schema {content.value['schema']}, this version reads {self.kind.schema}"
            raise Refused(Problem(str(self.path), why, "left in place and not read; update tunelaunch"))
        return [entry for entry in content.value[self.kind.entries] if isinstance(entry, dict)]

    def _data(self, content: Content, before: Sequence[Any], after: Sequence[Any]) -> bytes | None:
        if encode(list(before)) == encode(list(after)):
            return None
        rest = content.value if content.raw is not None else {}
        return encode({**rest, "schema": self.kind.schema, self.kind.entries: after})

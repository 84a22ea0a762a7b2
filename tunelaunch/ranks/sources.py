"""Rows that the local table lacks: from seeds, then from the remote. The leader's part; other ranks hear of the result.

Guarantees: nothing here raises or stops a start; a local row is never replaced; the receipt says how many rows of each
source are in use, those of which none is included. Rows of a seed are not copied into the local table, rows of a remote
are, so that the next start does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.contract import Contract
from tunelaunch.device.environment import Environment
from tunelaunch.errors import ShareError
from tunelaunch.share.atlaunch import LaunchRemote
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import Hidden, hidden_of, is_hidden, marked
from tunelaunch.share.seeds import fill, read_seeds
from tunelaunch.share.signing import Trust, trust_from
from tunelaunch.share.stock import IMPORTED
from tunelaunch.store import Row, Store, TableId


@dataclass(frozen=True)
class More:
    """Rows that go on top of the local ones, tactics that are hidden from now on, and what was odd."""

    rows: tuple[Row, ...] = ()
    hidden: Hidden = frozenset()
    problems: tuple[str, ...] = ()


@dataclass
class Sources:
    """Seeds and remote of one start, and which row is from where."""

    seeds: tuple[str, ...] = ()
    remote: LaunchRemote | None = None
    origin: dict[tuple[str, str | None], tuple[Row, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, contract: Contract) -> Sources:
        """What ``contract`` names."""
        return cls(contract.seeds, LaunchRemote(contract.remote) if contract.remote else None)

    def more(self, tid: TableId, environment: Environment, local: Sequence[Row], store: Store, write: bool) -> More:
        """Rows of ``tid`` beyond ``local``. ``write``: rows of the remote are kept in ``store``."""
        if not self.seeds and self.remote is None:
            return More()
        try:
            trust, problems = trust_from(), []
        except ShareError as why:
            # Fail closed: with a key that cannot be read, nothing unsigned is as good as signed.
            trust, problems = Trust(required=True), [str(why)]
        read = read_seeds(tid, self.seeds, trust, environment)
        quarantine = list(read.quarantine)
        pulled = self.remote.pull(tid) if self.remote else None
        if pulled is not None:
            quarantine += pulled.quarantine
        hidden = hidden_of(quarantine)
        found = [pair for pair in fill(local, read.rows) if not is_hidden(pair[0], hidden)]
        if pulled is not None and self.remote is not None:
            offered = [(marked(row), self.remote.name) for row in pulled.rows if not is_hidden(row, hidden)]
            fresh = fill([*local, *(row for row, _ in found)], offered)
            found += fresh
            if write:
                problems += _keep(store, tid, environment, [row for row, _ in fresh], pulled)
        for row, name in found:
            self.origin.setdefault(row.identity, (row, name))
        problems += [*read.problems, *(self.remote.problems if self.remote else ())]
        return More(tuple(row for row, _ in found), hidden, tuple(dict.fromkeys(problems)))

    def push(
        self, tid: TableId, fields: Mapping[str, Any], rows: Sequence[Row], quarantine: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """Add what this start found out to the remote; returns what went wrong."""
        if self.remote is None or not (rows or quarantine):
            return []
        before = len(self.remote.problems)
        try:
            self.remote.push(SharedTable(tid, dict(fields), tuple(rows), tuple(quarantine)))
        except (ValueError, TypeError) as error:
            return [f"remote {self.remote.name}: the new rows cannot be pushed ({error})"]
        return self.remote.problems[before:]

    def used(self, rows: Iterable[Row]) -> dict[str, dict[str, int]]:
        """How many of ``rows`` are from each seed, and from the remote; for the receipt."""
        if not self.seeds and self.remote is None:
            return {}
        counts = dict.fromkeys((*self.seeds, *([self.remote.name] if self.remote else [])), 0)
        for row in rows:
            source = self.origin.get(row.identity)
            if source is not None and source[0] == row:
                counts[source[1]] = counts.get(source[1], 0) + 1
        parts = {"seeds": {name: counts[name] for name in self.seeds}}
        return parts | ({"remote": {self.remote.name: counts[self.remote.name]}} if self.remote else {})


def _keep(store: Store, tid: TableId, environment: Environment, rows: Sequence[Row], pulled: SharedTable) -> list[str]:
    problems: list[Any] = []
    if rows:
        fields = dict(environment.fields)
        problems += store.publish(tid, rows, environment=fields, launch=f"{IMPORTED}remote").problems
    if pulled.quarantine:
        problems += store.add_quarantine(tid, pulled.quarantine)
    return [str(problem) for problem in problems]

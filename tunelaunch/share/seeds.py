"""Seeds: cache directories and bundles that are read below the local table, in order, and never written.

Baked into an image, mounted read-only, or a config map. Guarantees: nothing here raises or writes; a row of an earlier
seed wins; a quarantine in any seed hides a tactic in all of them; a row without evidence carries the mark that it must be
verified before it serves. Bundles are checked as an import checks them; a directory is trusted as far as its file system
is, so a required signature is asked of bundles only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunelaunch.device.environment import Environment
from tunelaunch.errors import ShareError
from tunelaunch.share import archive, stock
from tunelaunch.share.bundle import read_bundle, read_file
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import hidden_of, is_hidden, is_whole, marked
from tunelaunch.share.signing import Trust
from tunelaunch.store import Row, Store, TableId


@dataclass(frozen=True)
class SeedRead:
    """What the seeds say of one table: rows with the name of their seed, quarantine entries, and what was odd."""

    rows: tuple[tuple[Row, str], ...] = ()
    quarantine: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """All seeds, those without a row too."""


def read_seeds(
    tid: TableId, seeds: Sequence[str], trust: Trust | None = None, environment: Environment | None = None
) -> SeedRead:
    """Read ``tid`` from ``seeds`` (paths). ``environment`` is this process's, to say how a seed of another differs."""
    rows: dict[tuple[str, str | None], tuple[Row, str]] = {}
    quarantine: list[Mapping[str, Any]] = []
    problems: list[str] = []
    for name in seeds:
        try:
            table = _table(Path(name).expanduser(), tid, trust or Trust(), environment, problems)
        except ShareError as why:
            problems.append(f"seed {name}: {why}; not used")
            continue
        except Exception as bug:  # a seed is an offer: no fault of one may reach a start
            problems.append(f"seed {name}: {type(bug).__name__}: {bug}; not used")
            continue
        if table is not None:
            quarantine += table.quarantine
            for row in _fitting(table.rows, rows):
                rows[row.identity] = (marked(row), name)
    hidden = hidden_of(quarantine)
    return SeedRead(
        tuple(pair for pair in rows.values() if not is_hidden(pair[0], hidden)),
        tuple(quarantine),
        tuple(problems),
        tuple(dict.fromkeys(seeds)),
    )


def fill(local: Sequence[Row], offered: Sequence[tuple[Row, str]]) -> tuple[tuple[Row, str], ...]:
    """Those of ``offered`` rows that ``local`` ones do not cover; rows of a set come whole or not at all."""
    taken = {row.identity: (row, "") for row in local}
    by_source: dict[str, list[Row]] = {}
    for row, name in offered:
        by_source.setdefault(name, []).append(row)
    found: list[tuple[Row, str]] = []
    for name, rows in by_source.items():
        for row in _fitting(rows, taken):
            taken[row.identity] = (row, name)
            found.append((row, name))
    return tuple(found)


def _fitting(rows: Sequence[Row], taken: Mapping[tuple[str, str | None], Any]) -> list[Row]:
    """``rows`` whose place is free, without sets that are not whole or of which one place is taken."""
    sets: dict[str, list[Row]] = {}
    for row in rows:
        if row.set is not None:
            sets.setdefault(str(row.set["id"]), []).append(row)
    broken = {
        name for name, part in sets.items() if not is_whole(part) or any(row.identity in taken for row in part)
    }  # fmt: skip
    return [
        row
        for row in rows
        if row.identity not in taken and (row.set is None or str(row.set["id"]) not in broken)
    ]  # fmt: skip


def _table(
    path: Path, tid: TableId, trust: Trust, environment: Environment | None, problems: list[str]
) -> SharedTable | None:
    """The table ``tid`` of one seed; where there is none, ``problems`` says what the seed has instead."""
    if path.is_dir():
        loaded = Store.open(path, readonly=True).load(tid)
        problems += [f"seed {path}: {problem}" for problem in loaded.problems]
        if loaded.table is not None:
            quarantine = Store.open(path, readonly=True).read_quarantine(tid)
            return SharedTable(tid, {}, loaded.table.rows, tuple(quarantine))
        others = [other for _, other in stock.select([path], tid.device, None)]
        known = [Environment.from_json({"fields": stock.take(path, other).fields}) for other in others]
    else:
        raw = read_file(path)
        if not archive.is_archive(raw):
            raise ShareError("is neither a cache directory nor a bundle (other files: tunelaunch import)")
        tables = read_bundle(raw, trust).tables
        for table in tables:
            if table.tid == tid:
                return table
        known = [table.environment for table in tables if table.tid.device == tid.device]
    problems.append(f"seed {path}: {_why_none(tid, known, environment)}")
    return None


def _why_none(tid: TableId, known: Sequence[Environment], environment: Environment | None) -> str:
    if not known:
        return f"it has no table of {tid.device}; not used"
    if environment is None:
        return f"it has no table of environment {tid.environment}; not used"
    return f"it is of another environment ({stock.fields_apart(known[0], environment)}); not used"

"""Which tables lie under a root. Looks only: nothing is moved, locked or written."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .files import read
from .identity import TableId, is_device, is_environment
from .layout import Layout
from .problems import Problem
from .table import parse


@dataclass(frozen=True)
class TableInfo:
    """One table as found. ``bytes`` and ``mtime`` (seconds since the epoch) are those of ``table.json``.

    ``problem`` is set, and ``generation`` and ``rows`` are 0, where the file is of no use.
    """

    device: str
    environment: str
    generation: int
    rows: int
    bytes: int
    mtime: float
    path: str
    pinned: bool = False
    problem: Problem | None = None

    @property
    def tid(self) -> TableId:
        """The identity of this table."""
        return TableId(self.device, self.environment)


def scan(layout: Layout) -> list[TableInfo]:
    """All tables under a root, by device and environment. Never raises."""
    found = []
    for device in filter(is_device, _names(layout.base)):
        for environment in filter(is_environment, _names(layout.base / device)):
            info = scan_one(layout, TableId(device, environment))
            if info is not None:
                found.append(info)
    return found


def scan_one(layout: Layout, tid: TableId) -> TableInfo | None:
    """Table ``tid`` as found, or ``None`` where it has no ``table.json``. Never raises."""
    path = layout.table(tid).table
    size, mtime = 0, 0.0
    try:
        there = path.lstat()
        size, mtime = there.st_size, there.st_mtime
    except FileNotFoundError:
        return None
    except OSError:
        pass  # read() below finds out why
    content = read(path, layout.root)
    parsed = parse(content.value, tid, str(path)) if content.raw is not None else None
    table = parsed.table if parsed else None
    if table is None:
        problem = parsed.problems[0] if parsed else content.problem
        return TableInfo(tid.device, tid.environment, 0, 0, size, mtime, str(path), problem=problem)
    return TableInfo(
        tid.device, tid.environment, table.generation, len(table.rows), size, mtime, str(path), pinned=table.pinned
    )


def _names(directory: Path) -> list[str]:
    with suppress(OSError, ValueError):
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    return []

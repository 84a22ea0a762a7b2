"""What tables take and who needs them: sizes, ages, users, quarantined tactics. Looks only."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .layout import Layout
from .notes import QUARANTINE, NoteFile
from .scan import TableInfo, scan
from .users import User, last_use, users


@dataclass(frozen=True)
class Holding:
    """A table and what it takes.

    ``bytes`` are those of all its files, history included. ``used`` is when it was last written, or a launch last came
    or went (seconds since the epoch). ``quarantined`` counts tactics; ``root`` is the cache root it lies under.
    """

    info: TableInfo
    root: str
    bytes: int
    used: float
    quarantined: int = 0
    users: tuple[User, ...] = ()

    @property
    def name(self) -> str:
        """``device/environment``."""
        return f"{self.info.device}/{self.info.environment}"


def holdings(layout: Layout) -> list[Holding]:
    """All tables under a root, by device and environment. Never raises."""
    found = []
    for info in scan(layout):
        paths = layout.table(info.tid)
        note = NoteFile(QUARANTINE, paths.quarantine, paths.lock, layout.root, writable=False)
        found.append(
            Holding(
                info,
                str(layout.root),
                size_of(paths.directory),
                max(info.mtime, last_use(paths)),
                len(note.read([])),
                users(paths, layout.root),
            )
        )
    return found


def size_of(directory: Path) -> int:
    """Bytes of all files under ``directory``; links count as themselves, what cannot be looked at as nothing."""
    total, left = 0, [str(directory)]
    while left:
        with suppress(OSError, ValueError):
            for entry in os.scandir(left.pop()):
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total

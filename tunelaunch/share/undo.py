"""One table as it was before an import, and putting it back.

Guarantees: once the import of the table has ended, a file is put back only while it holds what the import wrote; what
another process wrote on top stays, and is named. Directories that the import made go when nothing else is in them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tunelaunch.store import Store, TableId, TablePaths
from tunelaunch.store.files import atomic_write, discard, read_bytes
from tunelaunch.store.lock import locked


@dataclass
class Snapshot:
    """The files of a table before (and after) an import touched them."""

    store: Store
    tid: TableId
    before: dict[Path, bytes | None]
    history: frozenset[Path]
    missing: tuple[Path, ...]
    after: dict[Path, bytes | None] | None = field(default=None)

    @classmethod
    def take(cls, store: Store, tid: TableId) -> Snapshot:
        """The state now."""
        paths = store.paths(tid)
        places = (paths.directory.parent, paths.directory, paths.history)
        return cls(
            store,
            tid,
            {path: read_bytes(path) for path in _files(paths)},
            frozenset(_listed(paths.history)),
            tuple(path for path in places if not path.exists()),
        )

    def note_after(self) -> None:
        """Remember what the import wrote."""
        self.after = {path: read_bytes(path) for path in self.before}

    def restore(self) -> list[Path]:
        """Put the earlier state back; returns the files for which that was not possible. Never raises."""
        paths = self.store.paths(self.tid)
        left: list[Path] = []
        try:
            with locked(paths.lock):
                for path, old in self.before.items():
                    now = read_bytes(path)
                    if now == old:
                        continue
                    if self.after is not None and now != self.after[path]:
                        left.append(path)  # somebody else has written since: theirs stays
                        continue
                    if old is None:
                        discard(path)
                    else:
                        atomic_write(path, old)
                for path in set(_listed(paths.history)) - self.history:
                    discard(path)
        except OSError:
            left += [path for path, old in self.before.items() if read_bytes(path) != old and path not in left]
        if paths.directory in self.missing:
            discard(paths.lock)
        for directory in reversed(self.missing):
            with suppress(OSError):
                directory.rmdir()
        return left


def _files(paths: TablePaths) -> tuple[Path, ...]:
    return (paths.table, paths.environment, paths.quarantine)


def _listed(directory: Path) -> list[Path]:
    with suppress(OSError):
        return list(directory.iterdir())
    return []

"""Earlier generations of a table, kept byte for byte and bounded.

Guarantees: numbers only count up (no clock is asked); a file in ``history/`` is never overwritten with other bytes.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .files import atomic_write, discard, ensure_directory, read, read_bytes
from .identity import TableId
from .layout import Layout, TablePaths, generation_of
from .outcome import Loaded
from .table import parse

MAX_COUNT = 20
MAX_BYTES = 64 * 1024 * 1024


def generations(paths: TablePaths) -> list[int]:
    """The generations in ``history/``, oldest first."""
    with suppress(OSError, ValueError):
        return sorted(n for n in map(generation_of, (p.name for p in paths.history.iterdir())) if n is not None)
    return []


def load(layout: Layout, tid: TableId, number: int) -> Loaded:
    """The kept generation ``number``, as it was. No table and no problem: it is not kept. Nothing is moved."""
    path = layout.table(tid).generation(number)
    content = read(path, layout.root)
    if content.raw is None:
        return Loaded(None, (content.problem,) if content.problem else ())
    parsed = parse(content.value, tid, str(path))
    return Loaded(parsed.table, parsed.problems)


def slot_for(paths: TablePaths, generation: int, raw: bytes) -> int:
    """The number under which the state ``raw``, which calls itself ``generation``, is kept.

    Its own number, unless other bytes have it already (a table that was restored by hand): then the next free one.
    """
    numbers = generations(paths)
    if generation not in numbers or read_bytes(paths.generation(generation)) == raw:
        return generation
    return max(numbers) + 1


def keep(paths: TablePaths, number: int, raw: bytes, root: Path) -> None:
    """Keep ``raw`` as generation ``number``. Raises :class:`OSError`."""
    target = paths.generation(number)
    if read_bytes(target) != raw:
        ensure_directory(paths.history, root)
        atomic_write(target, raw)


def prune(paths: TablePaths, protect: int | None = None) -> None:
    """Drop the oldest generations beyond the bounds. The newest one and ``protect`` always stay."""
    total = 0
    for position, number in enumerate(reversed(generations(paths))):
        path = paths.generation(number)
        with suppress(OSError):
            total += path.lstat().st_size
        if position and number != protect and (position >= MAX_COUNT or total > MAX_BYTES):
            discard(path)

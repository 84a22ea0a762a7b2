"""Reports of starts: one file a launch, the newest 50 kept.

Guarantees: never raises for a fault of the file system; "newest" does not depend on a clock that may run behind: a
report's file time is moved past that of the newest one before it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .files import atomic_write, discard, ensure_directory, read, sweep
from .jsontext import encode
from .layout import Layout
from .problems import Problem, reason

SCHEMA = "tunelaunch/report/1"
MAX_COUNT = 50


def write_report(layout: Layout, launch: str, report: Mapping[str, Any], problems: list[Problem]) -> Path | None:
    """Write the report of ``launch``; ``None`` (and a problem) if that is not possible."""
    path = layout.report(launch)
    try:
        problems += ensure_directory(layout.reports, layout.root)
        before = [time for name, time in _times(layout) if name != path.name]
        atomic_write(path, encode({"schema": SCHEMA, "launch": launch, **report}))
        if before and path.stat().st_mtime_ns <= max(before):
            os.utime(path, ns=(max(before) + 1000, max(before) + 1000))
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        problems.append(Problem(str(path), f"cannot be written ({reason(error)})", "this start leaves no report there"))
        return None
    for name, _ in _newest_first(layout)[MAX_COUNT:]:
        discard(layout.reports / name)
    sweep(layout.reports)
    return path


def read_report(layout: Layout, launch: str | None) -> Mapping[str, Any] | None:
    """The report of ``launch``, or the newest that can be read; ``None`` where there is none."""
    paths = [layout.report(launch)] if launch else [layout.reports / name for name, _ in _newest_first(layout)]
    for path in paths:
        value = read(path, layout.root).value
        if isinstance(value, Mapping):
            return value
    return None


def launches(layout: Layout) -> list[str]:
    """Ids of the starts that left a report under this root, newest first."""
    return [name.removesuffix(".json") for name, _ in _newest_first(layout)]


def newest_time(layout: Layout) -> int:
    """File time (ns) of the newest report, 0 where there is none."""
    return max((time for _, time in _times(layout)), default=0)


def _newest_first(layout: Layout) -> list[tuple[str, int]]:
    return sorted(_times(layout), key=lambda item: (item[1], item[0]), reverse=True)


def _times(layout: Layout) -> list[tuple[str, int]]:
    found = []
    with suppress(OSError, ValueError):
        for entry in os.scandir(layout.reports):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                with suppress(OSError):
                    found.append((entry.name, entry.stat(follow_symlinks=False).st_mtime_ns))
    return found

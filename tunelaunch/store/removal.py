"""Taking a whole table away: its rows, history, quarantine and marks.

Guarantees: the table is gone for readers in one rename; a table that is pinned, in use, or that cannot be read (so that
nobody knows whether it is pinned) stays unless ``force``; nothing outside of the table's own directory is removed, links
are not followed; a writer that waits for the table makes it anew and loses nothing of its own.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .files import inside
from .identity import TableId
from .layout import Layout, TablePaths
from .lock import locked
from .problems import Problem, reason
from .scan import TableInfo, scan_one
from .users import users

_PREFIX = ".removed-"
_LEFTOVER_S = 24 * 3600.0


@dataclass(frozen=True)
class Removed:
    """Whether the table is gone; if not, ``problem`` says why it stays (or what is left of it)."""

    done: bool
    problem: Problem | None = None


def remove(layout: Layout, tid: TableId, *, force: bool = False) -> Removed:
    """Remove table ``tid``. Never raises."""
    paths = layout.table(tid)
    try:
        if not inside(layout.root, paths.directory.parent):
            astray = "lies behind a link that leads out of the cache"
            return Removed(False, Problem(str(paths.directory), astray, "nothing done"))
        if not os.path.lexists(paths.directory):
            return Removed(False, Problem(str(paths.directory), "there is no such table", "nothing done"))
        with locked(paths.lock) if inside(layout.root, paths.lock) else nullcontext():
            why = None if force else obstacle(layout, scan_one(layout, tid))
            if why is not None:
                return Removed(False, Problem(str(paths.directory), why, "left as it is"))
            hidden = paths.directory.with_name(f"{_PREFIX}{tid.environment}-{os.getpid()}-{secrets.token_hex(4)}")
            paths.directory.rename(hidden)
            # A launch may have marked the table between the look and the rename: then it goes back.
            if not force and (late := users(TablePaths(hidden), layout.root)):
                return Removed(
                    False, Problem(str(paths.directory), f"is in use by {late[0]}", _put_back(hidden, paths))
                )
    except (OSError, ValueError) as error:
        why = f"cannot be removed ({reason(error)})"
        return Removed(False, Problem(str(paths.directory), why, "left as it is", getattr(error, "errno", None)))
    problem = _delete(hidden)
    _sweep(hidden.parent)
    with suppress(OSError):
        hidden.parent.rmdir()  # the last table of its device
    return Removed(True, replace(problem, path=str(hidden)) if problem else None)


def obstacle(layout: Layout, info: TableInfo | None) -> str | None:
    """Why a table must not be removed without ``force``; ``None`` when it may."""
    if info is None:
        return None
    if info.pinned:
        return "is pinned"
    if found := users(layout.table(info.tid), layout.root):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return f"is in use by {found[0]}{more}"
    if info.problem is not None:
        return f"may be pinned, its file {info.problem.why}"
    return None


def _put_back(hidden: Path, paths: TablePaths) -> str:
    try:
        hidden.rename(paths.directory)
    except OSError:  # a writer has made a new table there already
        return f"kept as {hidden.name} for a day"
    return "left as it is"


def _delete(directory: Path) -> Problem | None:
    try:
        if directory.is_symlink() or not directory.is_dir():
            directory.unlink()
        else:
            shutil.rmtree(directory)
    except OSError as error:
        return Problem(str(directory), f"is removed in part ({reason(error)})", "readers do not see it any more")
    return None


def _sweep(directory: Path) -> None:
    """Finish what removals that were killed left: a day old, so that none under way is hit."""
    with suppress(OSError):
        for entry in os.scandir(directory):
            if (
                entry.name.startswith(_PREFIX)
                and time.time() - entry.stat(follow_symlinks=False).st_ctime > _LEFTOVER_S
            ):
                _delete(Path(entry.path))

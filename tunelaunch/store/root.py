"""The root directory: where it is, and whether it can be written, found out by trying."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .files import atomic_write, discard, ensure_directory, sweep, write_temp
from .layout import CACHEDIR_TAG, README, Layout
from .problems import Problem, reason


def absolute(path: str | os.PathLike[str]) -> Path:
    """``path`` with ``~`` and the current directory resolved now, so that a later ``chdir`` moves nothing.

    Links stay as they are. Raises :class:`ValueError` for an empty path: it would mean the current directory.
    """
    if not os.fspath(path):
        raise ValueError("the cache directory must not be empty")
    plain = Path(path)
    with suppress(RuntimeError):  # no such user, no home: the name is taken as it is
        plain = plain.expanduser()
    try:
        return plain.absolute()
    except OSError:  # the current directory is gone; every access will say so
        return plain


def prepare(root: Path) -> tuple[bool, list[Problem]]:
    """Make ``root`` and see whether files can be made in it. Never raises.

    Permission bits do not answer that (read-only mounts, full disks, root squash, user namespaces), a file does.
    """
    layout = Layout(root)
    problems: list[Problem] = []
    try:
        problems += ensure_directory(layout.base, root)
        discard(write_temp(layout.base / "writable", b"1"))
    except (OSError, ValueError) as error:
        problems.append(Problem(str(root), f"cannot be written ({reason(error)})", "read only"))
        return False, problems
    for path, data in ((layout.tag, CACHEDIR_TAG), (layout.readme, README)):
        with suppress(OSError):  # nice to have
            if not os.path.lexists(path):
                atomic_write(path, data)
    sweep(root)
    sweep(layout.base)
    return True, problems

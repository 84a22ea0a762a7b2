"""Reading and writing single files, whatever lies there.

Guarantees: :func:`read` and :func:`set_aside` never raise for what is on the disk; :func:`atomic_write` leaves the old
bytes or the new ones, never a mixture, and no temporary file unless the process is killed; files get the mode that the
umask gives (so that a group can share a cache). Links that lead out of the root are not followed.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .jsontext import decode
from .lock import CLAIM_PREFIX
from .problems import Problem, reason

MAX_BYTES = 256 * 1024 * 1024
MAX_ASIDE = 20
"""Damaged files kept per name; then the last slot is used again, so that a fault that repeats cannot fill a disk."""
STALE_RETRIES = 3
"""On NFS a file that another host replaces between open and read gives a stale handle; its successor is there at once."""
_LEFTOVER_S = 24 * 3600.0
_NO_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS}


@dataclass(frozen=True)
class Content:
    """What was found at a path. Exactly one of: nothing at all; ``raw`` and ``value``; ``damage``; only ``problem``.

    ``damage`` is a short slug: the file is of no use and may be set aside. ``problem`` without ``damage``: it could
    not be looked at (permission, I/O error), so nobody knows whether it is good, and it must not be replaced.
    """

    value: Any = None
    raw: bytes | None = None
    damage: str | None = None
    problem: Problem | None = None
    inode: tuple[int, int] | None = None


def read_json_any(path: Path, root: Path | None = None) -> tuple[Any, Problem | None]:
    """The JSON value at ``path`` and no problem; ``(None, None)`` where there is no file; else ``(None, problem)``."""
    content = read(path, root)
    return content.value, content.problem


def read(path: Path, root: Path | None = None) -> Content:
    """Look at ``path``; with ``root``, refuse what lies outside of it once links are resolved."""
    inode = None
    try:
        inode = _inode(path)
        if root is not None and not inside(root, path):
            raise _Odd("link-out-of-root", "is a link that leads out of the cache")
        raw = _read_regular(path)
        return Content(value=_decode(raw), raw=raw, inode=inode)
    except FileNotFoundError:
        return Content()  # nothing, or a link to nothing: the next write replaces both
    except _Odd as odd:
        return Content(damage=odd.slug, problem=Problem(str(path), str(odd), "not used"), inode=inode)
    except (OSError, ValueError, MemoryError) as error:
        return Content(problem=Problem(str(path), f"cannot be read ({reason(error)})", "not used"), inode=inode)


def read_bytes(path: Path) -> bytes | None:
    """The bytes at ``path`` or ``None`` for anything but a readable file of ordinary size."""
    try:
        return _read_regular(path)
    except (OSError, ValueError, MemoryError, _Odd):
        return None


def inside(root: Path, path: Path) -> bool:
    """Whether ``path``, links resolved, lies under ``root``, links resolved."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def atomic_write(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``. Raises :class:`OSError`, the old file untouched and no temporary left."""
    temp = write_temp(path, data)
    install(temp, path)


def write_temp(path: Path, data: bytes) -> Path:
    """Write ``data``, synced, to a temporary file beside ``path`` and return it. Raises :class:`OSError`."""
    temp = path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    # 0o666 here and not tempfile's 0o600: the kernel takes the umask off, and a group can read what it shares.
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            _fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        discard(temp)
        raise
    return temp


def install(temp: Path, path: Path) -> None:
    """Move ``temp`` over ``path`` and sync the directory. Raises :class:`OSError`, ``temp`` removed."""
    try:
        os.replace(temp, path)  # noqa: PTH105  # the one rename that everything rests on; tests wrap it by this name
    except BaseException:
        discard(temp)
        raise
    with suppress(OSError):  # the rename is done; a directory that cannot be synced is no failure
        fd = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _fsync(fd)
        finally:
            os.close(fd)


def discard(path: Path) -> None:
    """Remove a file that nobody else knows of."""
    with suppress(OSError):
        path.unlink()


def ensure_directory(path: Path, root: Path) -> list[Problem]:
    """Make ``path`` under ``root``; a file in the way is set aside. Raises :class:`OSError` if that does not help."""
    problems = []
    for step in [*reversed(path.relative_to(root).parents), path.relative_to(root)]:
        directory = root / step
        if os.path.lexists(directory) and not directory.is_dir():
            moved = set_aside(directory, "not-a-directory")
            action = f"set aside as {moved.name}" if moved else "left in place"
            problems.append(Problem(str(directory), "is not a directory", action))
        directory.mkdir(parents=directory == root, exist_ok=True)
    if not inside(root, path):
        raise OSError(errno.ELOOP, "a link in this path leads out of the cache", str(path))
    return problems


def set_aside(path: Path, why: str, inode: tuple[int, int] | None = None) -> Path | None:
    """Rename ``path`` to ``<name>.damaged-<why>-<n>`` and return that, or ``None`` where it cannot be moved.

    With ``inode`` only that very file is moved: between our look and the rename another process may have put a good one
    in its place.
    """
    slug = re.sub(r"[^a-z0-9-]+", "-", why.lower())[:40].strip("-") or "odd"
    try:
        for number in range(1, MAX_ASIDE + 1):
            target = path.with_name(f"{path.name}.damaged-{slug}-{number}")
            if not os.path.lexists(target) or number == MAX_ASIDE:
                break
        if inode is not None and _inode(path) != inode:
            return None
        path.rename(target)
        if inode is not None and _inode(target) != inode:
            with suppress(OSError):  # a good file slipped in: back, unless there is a newer one already
                os.link(target, path, follow_symlinks=False)
            return None
        return target
    except (OSError, ValueError):
        return None


def sweep(directory: Path) -> None:
    """Remove temporary files and claims of processes that were killed: a day old, so that none in use is hit."""
    with suppress(OSError):
        for entry in os.scandir(directory):
            ours = (entry.name.startswith(".") and entry.name.endswith(".tmp")) or entry.name.startswith(CLAIM_PREFIX)
            if ours and time.time() - entry.stat(follow_symlinks=False).st_mtime > _LEFTOVER_S:
                discard(Path(entry.path))


class _Odd(Exception):
    def __init__(self, slug: str, why: str) -> None:
        super().__init__(why)
        self.slug = slug


def _read_regular(path: Path) -> bytes:
    for _ in range(STALE_RETRIES):
        try:
            return _read_once(path)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return _read_once(path)


def _read_once(path: Path) -> bytes:
    # O_NONBLOCK: opening a FIFO that somebody left there must not wait for a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd)
        if stat.S_ISDIR(mode.st_mode):
            raise _Odd("directory", "is a directory where a file should be")
        if not stat.S_ISREG(mode.st_mode):
            raise _Odd("not-a-file", "is no regular file")
        if mode.st_size > MAX_BYTES:
            raise _Odd("too-large", f"has {mode.st_size} bytes; {MAX_BYTES} is the limit")
        raw = bytearray()
        while chunk := os.read(fd, 1 << 20):
            raw += chunk
            if len(raw) > MAX_BYTES:
                raise _Odd("too-large", "grows while it is read")
        return bytes(raw)
    finally:
        os.close(fd)


def _decode(raw: bytes) -> Any:
    try:
        return decode(raw)
    except ValueError as error:
        raise _Odd("empty" if str(error) == "empty" else "not-json", f"is {error}"[:300]) from None


def _inode(path: Path) -> tuple[int, int]:
    there = path.lstat()
    return (there.st_dev, there.st_ino)


def _fsync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise

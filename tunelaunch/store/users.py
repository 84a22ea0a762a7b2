"""Which launches use a table now: one small file each in ``in-use/``, so that nothing is removed under a running server.

Guarantees: no function raises for what is on the disk; a mark of a process that is gone holds nothing for long. On the
host that made it a mark lives as long as its process (a process id that was given to another process, or that is from
before a restart of the host, is recognised); elsewhere, where nobody can look, for :data:`FOREIGN_S` seconds.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .files import atomic_write, discard, ensure_directory, read
from .jsontext import encode
from .layout import TablePaths
from .problems import Problem, reason

SCHEMA = "tunelaunch/in-use/1"
FOREIGN_S = 30 * 24 * 3600.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True)
class User:
    """A launch that uses a table: its id, and the process and host that said so (``None``, ``""``: unreadable)."""

    launch: str
    pid: int | None
    host: str

    def __str__(self) -> str:
        return f"launch {self.launch} (process {self.pid or 'unknown'} on {self.host or 'an unknown host'})"


@dataclass(frozen=True)
class Here:
    """What tells this host, this boot of it and this process namespace from others."""

    host: str
    boot: str | None
    namespace: str | None

    @classmethod
    def find(cls) -> Here:
        """This process's own place; what the system does not tell is ``None``."""
        boot = namespace = None
        with suppress(OSError, ValueError):
            boot = _BOOT_ID.read_text(encoding="ascii").strip() or None
        with suppress(OSError):
            namespace = str(_PID_NAMESPACE.readlink())
        return cls(socket.gethostname(), boot, namespace)


def mark(paths: TablePaths, root: Path, launch: str, pid: int) -> Problem | None:
    """Say that ``launch`` uses the table, as process ``pid`` of this host; stale marks are swept on the way."""
    here = Here.find()
    body = {
        "schema": SCHEMA,
        "launch": launch,
        "pid": pid,
        "host": here.host,
        "boot": here.boot,
        "namespace": here.namespace,
        "started": _process(pid)[0],
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    try:
        ensure_directory(paths.in_use, root)
        for path in _marks(paths):
            if _user(path, root, here) is None:
                discard(path)
        atomic_write(paths.user(launch), encode(body))
    except (OSError, ValueError) as error:
        why = f"cannot be marked as in use ({reason(error)})"
        return Problem(str(paths.directory), why, "cache prune may remove it meanwhile", getattr(error, "errno", None))
    return None


def release(paths: TablePaths, launch: str) -> None:
    """Take the mark of ``launch`` away, if there is one."""
    with suppress(ValueError):
        discard(paths.user(launch))


def users(paths: TablePaths, root: Path) -> tuple[User, ...]:
    """The launches that use the table now, by id. Looks only."""
    here = Here.find()
    found = (_user(path, root, here) for path in _marks(paths))
    return tuple(sorted((user for user in found if user is not None), key=lambda user: user.launch))


def last_use(paths: TablePaths) -> float:
    """When a launch last came or went, in seconds since the epoch; 0 where none ever did."""
    with suppress(OSError, ValueError):
        return paths.in_use.stat().st_mtime
    return 0.0


def _marks(paths: TablePaths) -> list[Path]:
    with suppress(OSError, ValueError):
        return [path for path in sorted(paths.in_use.iterdir()) if not path.name.startswith(".")]
    return []


def _user(path: Path, root: Path, here: Here) -> User | None:
    """The user that ``path`` stands for, or ``None`` when it is gone."""
    value = read(path, root).value
    body: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    pid, host, boot = body.get("pid"), body.get("host"), body.get("boot")
    number = pid if isinstance(pid, int) and 0 < pid < 1 << 31 else None
    user = User(path.name, number, host if isinstance(host, str) else "")
    if number is not None and here.boot is not None and isinstance(boot, str):
        if boot != here.boot and host == here.host:
            return None  # this host has been started again since
        if (boot, body.get("namespace")) == (here.boot, here.namespace):
            return user if _runs(number, body.get("started")) else None
    try:
        age = time.time() - path.lstat().st_mtime
    except OSError:
        return None
    # Either way: a clock that is far ahead must not keep a table for ever.
    return user if abs(age) <= FOREIGN_S else None


def _runs(pid: int, started: Any) -> bool:
    """Whether process ``pid`` of this namespace is there, and is the one that began at ``started``."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # another user's process is a process
    now, state = _process(pid)
    return state not in ("Z", "X") and (now is None or type(started) is not int or now == started)


def _process(pid: int) -> tuple[int | None, str]:
    """Start time of a process (clock ticks since boot) and its state letter; ``(None, "")`` where it cannot be read."""
    try:
        # The name in parentheses may hold anything, so fields are counted from its end.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]), fields[0].decode("ascii")
    except (OSError, ValueError, IndexError):
        return None, ""

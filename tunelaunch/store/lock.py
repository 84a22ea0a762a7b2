"""Who writes now: an advisory lock, and a claim for where locks do not work.

Guarantees: nothing here raises for a fault of the file system; no wait is longer than the time given; a dead process
holds nothing up (the kernel drops its ``flock``; its claim is passed over).
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

CLAIM_PREFIX = ".claim-"
_POLL_S = 0.01


@contextmanager
def locked(path: Path, timeout_s: float = 5.0) -> Iterator[bool]:
    """Hold the lock file ``path``. Yields ``False`` where it timed out or locking does not work; never raises for that.

    With ``False`` the caller goes on optimistically (see ``commit.py``): a lock saves work, it does not carry safety.
    """
    with ExitStack() as stack:
        held = False
        try:
            # An explicit mode: the lock of a shared cache must be open to the group that the umask allows.
            lock = FileLock(str(path), mode=0o666 & ~current_umask())
            stack.enter_context(lock.acquire(timeout=timeout_s, poll_interval=_POLL_S))
            held = True
        except (Timeout, OSError, RuntimeError, ValueError, UserWarning):
            # filelock raises RuntimeErrors of its own, and warns (an error under -W error) where flock is missing.
            held = False
        yield held


@contextmanager
def claimed(target: Path, base: bytes | None, patience_s: float) -> Iterator[None]:
    """Be the one that replaces the state ``base`` of ``target``, decided by an exclusive create (works on NFS).

    A claim is about one state of the file, so it means nothing once that state is gone. If another holds the claim,
    wait for the state to change or for ``patience_s`` seconds, then go on: the other may be dead, and the caller
    compares the state again before it renames.
    """
    path = target.parent / f"{CLAIM_PREFIX}{digest(base)}-{target.name}"
    ours = False
    deadline = time.monotonic() + patience_s
    while True:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            ours = True
            break
        except FileExistsError:
            if time.monotonic() >= deadline:
                ours = True  # left over: take it along when we are done
                break
        except (OSError, ValueError):
            break
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        if ours:
            with suppress(OSError):
                path.unlink()


def digest(raw: bytes | None) -> str:
    """A short name for a state of a file; ``None`` is "no file"."""
    return "none" if raw is None else hashlib.sha256(raw).hexdigest()[:16]


def current_umask() -> int:
    """The umask of this process, read without changing it where the system allows (another thread may create files)."""
    try:
        match = re.search(
            r"^Umask:\s*([0-7]+)", Path("/proc/self/status").read_text(encoding="ascii", errors="replace"), re.M
        )
    except (OSError, ValueError):
        match = None
    if match:
        return int(match[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

"""The private directory of one start: where it is, who may own it, and what is left over from earlier starts.

Layout: ``<base>/tunelaunch-<uid>/<launch id>/``; base is ``XDG_RUNTIME_DIR`` when that is a writable directory, else
the directory for temporary files. Guarantees: mode 0700; a directory of another user or a symbolic link in its place is
never used; only directories of this user whose process is known to be gone are removed, a bounded number a start.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from tunelaunch import contract
from tunelaunch.errors import TunelaunchError

LAUNCH_ID = re.compile(r"^\d{8}T\d{6}Z-(\d{1,10})-[0-9a-f]{4}$")
PRUNE_AT_MOST = 32
_NAMESPACE_FILE = "pid-namespace"


def new_launch_id(now: datetime, pid: int) -> str:
    """``YYYYMMDDTHHMMSSZ-<pid>-<4 hex>``, in UTC; sorts by time."""
    return f"{now.astimezone(timezone.utc):%Y%m%dT%H%M%SZ}-{pid}-{os.urandom(2).hex()}"


def base_dir(environ: Mapping[str, str]) -> Path:
    """Where private directories live on this host. Raises :class:`OSError` when no directory can be written."""
    named = [environ.get(name) for name in ("XDG_RUNTIME_DIR", "TMPDIR", "TEMP", "TMP")]
    for text in (*named, "/tmp"):  # tempfile's own order; the module itself is slow to import
        if text and Path(text).is_dir() and os.access(text, os.W_OK | os.X_OK):
            return Path(text).absolute()
    import tempfile

    return Path(tempfile.gettempdir()).absolute()


def private_parent(environ: Mapping[str, str]) -> Path:
    """``<base>/tunelaunch-<uid>``, or a fresh name beside it when that one is not safely ours. Creates nothing."""
    usual = base_dir(environ) / f"tunelaunch-{os.getuid()}"
    try:
        found = usual.lstat()
    except FileNotFoundError:
        return usual
    if _is_ours(found):
        return usual
    return usual.with_name(f"{usual.name}-{os.urandom(8).hex()}")


def overlay_dir(environ: Mapping[str, str]) -> Path:
    """Where tables are kept when the cache root cannot be written: beside the run directories of this user.

    Inside SGLang's processes it follows the launcher's own choice (``TUNELAUNCH_RUN_DIR``). Creates nothing.
    """
    run_dir = environ.get(contract.RUN_DIR)
    return (Path(run_dir).parent if run_dir else private_parent(environ)) / "cache"


def create(run_dir: Path) -> None:
    """Create ``run_dir`` (0700) with room for receipts, after removing what dead starts left beside it.

    Raises :class:`OSError`, or :class:`TunelaunchError` when the parent belongs to someone else.
    """
    parent = run_dir.parent
    parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(parent.lstat()):
        raise TunelaunchError(f"{parent} is not a directory of this user")
    parent.chmod(0o700)
    prune(parent)
    run_dir.mkdir(mode=0o700)
    run_dir.chmod(0o700)  # whatever the umask says
    (run_dir / "receipts").mkdir(mode=0o700)
    (run_dir / _NAMESPACE_FILE).write_text(_pid_namespace(), encoding="utf-8")


def prune(parent: Path) -> list[Path]:
    """Remove run directories whose process is gone; at most :data:`PRUNE_AT_MOST` are looked at, oldest first.

    A pid only means something in its own pid namespace: containers that share a directory for temporary files leave
    each other's alone.
    """
    removed: list[Path] = []
    for entry in sorted(p for p in parent.iterdir() if LAUNCH_ID.match(p.name))[:PRUNE_AT_MOST]:
        try:
            if _is_ours(entry.lstat()) and _same_namespace(entry) and not _alive(_pid_of(entry.name)):
                import shutil  # costs a start more than all of this file, and is seldom needed

                shutil.rmtree(entry)
                removed.append(entry)
        except OSError:
            continue  # another start may be removing it; the next one looks again
    return removed


def _pid_of(name: str) -> int:
    match = LAUNCH_ID.match(name)
    return int(match.group(1)) if match else os.getpid()


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return "unknown"


def _same_namespace(entry: Path) -> bool:
    try:
        return (entry / _NAMESPACE_FILE).read_text(encoding="utf-8") == _pid_namespace()
    except (OSError, UnicodeDecodeError):
        return False

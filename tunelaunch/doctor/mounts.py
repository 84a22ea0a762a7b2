"""Which file system a path is on, from ``/proc/mounts``, and whether it is a network's, a container's or memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROC_MOUNTS = Path("/proc/mounts")

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "afs"})
_NETWORK |= {"wekafs", "9p", "virtiofs", "ocfs2", "gfs2", "pvfs2", "orangefs", "panfs", "davfs"}
_NETWORK_FUSE = ("sshfs", "s3fs", "goofys", "juicefs", "gcsfuse", "blobfuse", "rclone", "glusterfs", "ceph", "mount-s3")
_MEMORY = frozenset({"tmpfs", "ramfs"})
_CONTAINER = frozenset({"overlay", "aufs", "fuse-overlayfs", "fuse.fuse-overlayfs"})


@dataclass(frozen=True)
class Mount:
    """One line of ``/proc/mounts``."""

    point: str
    type: str
    source: str = ""
    options: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``network``, ``memory``, ``container`` (gone with it) or ``local``."""
        if self.type in _NETWORK or (self.type.startswith("fuse") and self._names_a_network()):
            return "network"
        if self.type in _MEMORY:
            return "memory"
        return "container" if self.type in _CONTAINER else "local"

    @property
    def readonly(self) -> bool:
        return "ro" in self.options

    def _names_a_network(self) -> bool:
        return any(name in f"{self.type} {self.source}".lower() for name in _NETWORK_FUSE)


def read_mounts(path: Path = PROC_MOUNTS) -> tuple[Mount, ...]:
    """All mounts in order; none where the file cannot be read (another operating system)."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ()
    fields = [line.split(" ") for line in lines]
    return tuple(
        Mount(unescape(part[1]), part[2], unescape(part[0]), tuple(part[3].split(",")))
        for part in fields
        if len(part) >= 4
    )


def mount_of(path: Path, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that holds ``path`` (absolute, links resolved): the deepest, and of those the last, which hides the others."""
    best: Mount | None = None
    for mount in mounts:
        above = Path(mount.point)
        if (path == above or above in path.parents) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def unescape(text: str) -> str:
    """The kernel writes blank, tab, newline and backslash as three octal digits."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text

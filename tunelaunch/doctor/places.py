"""The directories that a start writes to: whose they are, and what the file system under each of them is like.

Guarantees: nothing is made and nothing stays behind; a directory that does not exist is judged by the nearest one above.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tunelaunch.doctor.mounts import Mount, mount_of

MIB = 2**20
OURS = "tunelaunch"


@dataclass(frozen=True)
class Place:
    """One cache directory. ``variable`` moves it; ``needs_mib`` is what a first start can take there, roughly."""

    owner: str
    path: Path
    variable: str
    needs_mib: int


@dataclass(frozen=True)
class PlaceState:
    """A place as found. ``free_mib`` is ``None`` where it cannot be told; ``problem`` says why it cannot be written."""

    place: Place
    exists: bool
    problem: str | None
    free_mib: int | None
    mount: Mount | None

    def to_json(self) -> dict[str, object]:
        return {
            "owner": self.place.owner,
            "path": str(self.place.path),
            "variable": self.place.variable,
            "exists": self.exists,
            "writable": self.problem is None,
            "problem": self.problem,
            "free_mib": self.free_mib,
            "file_system": None if self.mount is None else self.mount.type,
            "kind": None if self.mount is None else self.mount.kind,
        }


_OWNERS = {
    "SGLANG_CACHE_DIR": ("SGLang", 512),
    "FLASHINFER_WORKSPACE_BASE": ("FlashInfer", 2048),
    "TRITON_CACHE_DIR": ("Triton", 512),
    "TORCHINDUCTOR_CACHE_DIR": ("torch.compile", 512),
    "CUDA_CACHE_PATH": ("CUDA", 256),
}


def places(root: Path, directories: Mapping[str, str]) -> list[Place]:
    """Ours at ``root`` and those of ``directories`` (variable to path)."""
    found = [Place(OURS, root, "TUNELAUNCH_CACHE_DIR", 16)]
    for variable, (owner, needs) in _OWNERS.items():
        if variable in directories:
            found.append(Place(owner, Path(directories[variable]), variable, needs))
    return found


def look(place: Place, mounts: Sequence[Mount]) -> PlaceState:
    """How ``place`` is now; tried by making a nameless file where it exists."""
    path = place.path.absolute()
    near = next((p for p in (path, *path.parents) if _is_there(p)), Path("/"))
    exists = near == path
    return PlaceState(place, exists, _fault(near), _free_mib(near), mount_of(Path(os.path.realpath(near)), mounts))


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it cannot be looked at, so it cannot be written either
    return True


def _fault(directory: Path) -> str | None:
    try:
        if not directory.is_dir():
            return f"{directory} is not a directory"
        with tempfile.TemporaryFile(dir=directory):
            return None
    except OSError as why:
        return f"{directory}: {why.strerror or why}"


def _free_mib(directory: Path) -> int | None:
    try:
        there = os.statvfs(directory)
    except OSError:
        return None
    return there.f_bavail * there.f_frsize // MIB

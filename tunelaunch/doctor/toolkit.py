"""What FlashInfer needs to compile its kernels: nvcc, ninja, a C++ compiler, memory; and which modules are there already.

FlashInfer compiles a module when it is first used, unless a package or an earlier start left it behind. Nothing here
imports FlashInfer or raises.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NVCC_TIMEOUT_S = 10.0
GIB_PER_JOB = 8
"""GiB that one compiler of the CUTLASS kernels takes at its peak, as FlashInfer's users and its own build scripts say."""


@dataclass(frozen=True)
class Toolkit:
    """Tools as found; a path or version that is ``None`` is not there. ``memory_mib`` is what may still be taken."""

    nvcc: str | None = None
    cuda: tuple[int, int] | None = None
    ninja: str | None = None
    compiler: str | None = None
    jobs: int = 1
    jobs_given: bool = False
    memory_mib: int | None = None
    prebuilt: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "nvcc": self.nvcc,
            "cuda": None if self.cuda is None else "{}.{}".format(*self.cuda),
            "ninja": self.ninja,
            "compiler": self.compiler,
            "jobs": self.jobs,
            "memory_available_mib": self.memory_mib,
            "modules_prebuilt": len(self.prebuilt),
            "modules_compiled": len(self.compiled),
            "moe_modules": list(self.moe_modules),
        }

    @property
    def moe_modules(self) -> tuple[str, ...]:
        """Modules of the fused MoE that need not be compiled any more."""
        return tuple(sorted(name for name in {*self.prebuilt, *self.compiled} if "fused_moe" in name))


def read_toolkit(environ: Mapping[str, str], modules: Mapping[str, list[str]]) -> Toolkit:
    """The tools that a start with ``environ`` finds; ``modules`` is :func:`tunelaunch.hosts.asked.prebuilt_modules`."""
    search = environ.get("PATH")
    nvcc = _nvcc(environ, search)
    given = environ.get("MAX_JOBS", "")
    return Toolkit(
        nvcc=nvcc,
        cuda=_cuda_of(nvcc) if nvcc else None,
        ninja=shutil.which("ninja", path=search),
        compiler=shutil.which(environ.get("CXX") or "c++", path=search) or shutil.which("g++", path=search),
        jobs=int(given) if given.isdigit() and int(given) else (os.cpu_count() or 1) + 2,
        jobs_given=given.isdigit() and int(given) > 0,
        memory_mib=available_mib(),
        prebuilt=tuple(modules.get("prebuilt", ())),
        compiled=tuple(modules.get("compiled", ())),
    )


def available_mib(proc: Path = Path("/proc/meminfo"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """MiB that this process may still take: the host's available memory, or less where a container is limited."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text(proc), re.MULTILINE)
    found = [int(match[1]) // 1024] if match else []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        top, now = _text(groups / limit).strip(), _text(groups / used).strip()
        if top.isdigit() and now.isdigit() and int(top) < 1 << 60:
            found.append(max(0, int(top) - int(now)) // 2**20)
    return min(found, default=None)


def _nvcc(environ: Mapping[str, str], search: str | None) -> str | None:
    # In FlashInfer's order.
    if environ.get("FLASHINFER_NVCC"):
        return shutil.which(environ["FLASHINFER_NVCC"], path=search)
    home = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    if home:
        return shutil.which(str(Path(home) / "bin" / "nvcc"))
    return shutil.which("nvcc", path=search) or shutil.which("/usr/local/cuda/bin/nvcc")


def _cuda_of(nvcc: str) -> tuple[int, int] | None:
    try:
        done = subprocess.run(
            [nvcc, "--version"], capture_output=True, text=True, timeout=NVCC_TIMEOUT_S, check=False
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"release (\d+)\.(\d+)", done.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""

"""Released wheels of SGLang and FlashInfer: where they come from, and what is unpacked of them.

A wheel is looked for in the directory that ``TUNELAUNCH_WHEELS`` names, else in the cache that the caller gives, into which
``pip download`` puts what is missing. Only Python sources are unpacked: all of FlashInfer's, and a handful of SGLang's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

SGLANG_FILES = (
    "srt/model_executor/runner/flashinfer_autotune.py",
    "srt/plugins/hook_registry.py",
    "srt/plugins/__init__.py",
    "srt/distributed/parallel_state.py",
    "srt/entrypoints/engine.py",
    "srt/managers/scheduler.py",
    "srt/layers/linear.py",
    "srt/layers/moe/topk.py",
    "srt/layers/moe/fused_moe_triton/layer.py",
    "srt/server_args.py",
)


@dataclass(frozen=True)
class Pair:
    """One release of SGLang with a FlashInfer: the one that it pins, or a newer one (``pinned`` is false)."""

    sglang: str
    flashinfer: str
    pinned: bool = True

    def __str__(self) -> str:
        return f"{self.sglang}+{self.flashinfer}"


PAIRS = (
    Pair("0.5.16", "0.6.14"),
    Pair("0.5.18", "0.6.17"),
    Pair("0.5.20", "0.6.18"),
    Pair("0.5.22", "0.7.1"),
    Pair("0.5.23", "0.7.2"),
    Pair("0.5.23", "0.7.4", pinned=False),
)


class NoWheelError(RuntimeError):
    """A wheel is neither there nor to be had."""


def sglang_sources(version: str, cache: Path) -> Path:
    """A directory with the package ``sglang`` of ``version``, reduced to :data:`SGLANG_FILES`."""
    wanted = {f"sglang/{name}" for name in SGLANG_FILES}
    return _unpacked("sglang", version, cache, lambda name: name in wanted)


def flashinfer_sources(version: str, cache: Path) -> Path:
    """A directory with every Python file of the package ``flashinfer`` of ``version``, and its metadata."""
    return _unpacked(
        "flashinfer_python",
        version,
        cache,
        lambda name: name.endswith((".py", ".json", "METADATA", "RECORD")) and name.startswith("flashinfer"),
    )


def _unpacked(project: str, version: str, cache: Path, wanted: object) -> Path:
    target = cache / "sources" / f"{project}-{version}"
    if (target / ".complete").exists():
        return target
    assert callable(wanted)
    with zipfile.ZipFile(_wheel(project, version, cache)) as archive:
        archive.extractall(target, [name for name in archive.namelist() if wanted(name)])
    (target / ".complete").touch()
    return target


def _wheel(project: str, version: str, cache: Path) -> Path:
    given = os.environ.get("TUNELAUNCH_WHEELS")
    for folder in filter(None, [Path(given) if given else None, cache / "wheels"]):
        for path in sorted(folder.glob(f"{project}-{version}-*.whl")):
            return path
    return _downloaded(project, version, cache / "wheels")


def _downloaded(project: str, version: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    requirement = f"{project.replace('_', '-')}=={version}"
    said = ""
    for python in ("312", "311"):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--platform", "manylinux_2_34_x86_64", "--platform", "any"]
        command += ["--python-version", python, "--implementation", "cp", "--abi", f"cp{python}", "--abi", "none"]
        done = subprocess.run([*command, "-d", str(folder), requirement], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return next(iter(sorted(folder.glob(f"{project}-{version}-*.whl"))))
        said = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"pip ended with {done.returncode}"
    raise NoWheelError(
        f"The wheel of {requirement} is needed to check this release, and the package registry did not give it: {said}. "
        f"Set TUNELAUNCH_WHEELS to a directory that holds it, or run again where the registry can be reached."
    )

"""Helpers of the store's tests: rows, child processes, places that cannot be written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tunelaunch.store import Row, TableId

REPOSITORY = Path(__file__).resolve().parents[3]
TID = TableId("nvidia-rtx-pro-6000-blackwell-workstation-edition.sm120.188sm", "0123456789ab")
OTHER = TableId("nvidia-geforce-rtx-5090.sm120.170sm", "0123456789ab")
ENVIRONMENT = {"gpu": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_count": 188}
OP = "trtllm::fused_moe::gemm1"


def row(number: int, tactic: Any = 14, **fields: Any) -> Row:
    key = f"('{OP}', 'MoERunner', (({number}, 2560), (256, 1280, 160), (0,), (256, 2560, 40), (0,)), ())"
    return Row(key=key, value=["MoERunner", tactic], op=OP, **fields)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A real Python process that runs ``code``; its stdin and stdout are pipes."""
    path = os.pathsep.join([str(REPOSITORY), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def finish(child: subprocess.Popen[str], timeout_s: float = 120.0) -> str:
    """The output of ``child``, which must end well."""
    out, err = child.communicate(timeout=timeout_s)
    assert child.returncode == 0, err
    return out


@contextmanager
def mounted(directory: Path, size: str = "1m") -> Iterator[bool]:
    """A tmpfs on ``directory``; yields whether this machine allows that."""
    directory.mkdir(parents=True, exist_ok=True)
    tool = shutil.which("mount")
    done = tool is not None and (
        subprocess.run(
            [tool, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], capture_output=True, check=False
        ).returncode
        == 0
    )
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(directory)], check=True)


@contextmanager
def small_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make ``directory`` a disk of 1 MiB; where nothing can be mounted, writes beyond that fail as on a full disk."""
    with mounted(directory) as real:
        if not real:
            left = [1 << 20]
            write = os.write

            def full(fd: int, data: Any) -> int:
                if directory.resolve() not in Path(f"/proc/self/fd/{fd}").resolve().parents:
                    return write(fd, data)
                left[0] -= len(data)
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return write(fd, data)

            monkeypatch.setattr(os, "write", full)
        yield


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that another user can reach (pytest's own are private)."""
    path = Path(tempfile.mkdtemp(prefix="tunelaunch-test-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        for item in path.rglob("*"):
            if item.is_dir() and not item.is_symlink():
                item.chmod(0o755)
        shutil.rmtree(path)


DROP_PRIVILEGES = """
import os
def drop():
    'Become a user who owns nothing: only then does root see what others see.'
    if os.geteuid() == 0:
        for uid in (1000680000, 65534):
            try:
                os.setgroups([]); os.setgid(65534); os.setuid(uid)
                break
            except OSError:
                continue
        assert os.geteuid() != 0
"""

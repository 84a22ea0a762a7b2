"""A stand-in for SGLang, and a way to start tunelaunch in front of it as a real process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).parents[3]

STAND_IN = '''
"""Stands in for sglang.launch_server: says what it was given on stdout, then ends as it was told to."""
import json, os, signal, sys

names = ("TUNELAUNCH_", "SGLANG_")
told = {
    "argv": [os.fsencode(arg).hex() for arg in sys.argv[1:]],
    "pid": os.getpid(),
    "environ": {k: v for k, v in os.environ.items() if k.startswith(names)},
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")),
}
print(json.dumps(told), flush=True)
if "--stand-in-wait" in sys.argv:
    signal.pause()
told = sys.stdin.read()
print(json.dumps(told), flush=True)
for arg in sys.argv:
    if arg.startswith("--stand-in-exit="):
        sys.exit(int(arg.split("=")[1]))
    if arg.startswith("--stand-in-signal="):
        os.kill(os.getpid(), int(arg.split("=")[1]))
'''


@dataclass(frozen=True)
class Started:
    """A start that has ended: what the stand-in was given (``None``: it never ran), its stdin, code and our lines."""

    given: Mapping[str, Any] | None
    stdin: str | None
    code: int
    stderr: str
    pid: int

    @property
    def argv(self) -> list[bytes]:
        assert self.given is not None, self.stderr
        return [bytes.fromhex(arg) for arg in self.given["argv"]]

    @property
    def environ(self) -> Mapping[str, str]:
        assert self.given is not None, self.stderr
        return self.given["environ"]


@dataclass(frozen=True)
class Host:
    """A host with the stand-in on its path, an own home and an own runtime directory."""

    path: Path

    def environ(self, **variables: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TUNELAUNCH_", "SGLANG_", "CUDA_"))}
        return kept | {
            "PYTHONPATH": f"{REPO}:{self.path / 'site'}",
            "HOME": str(self.path),
            "XDG_RUNTIME_DIR": str(self.path / "run"),
            "XDG_CACHE_HOME": str(self.path / "xdg-cache"),
            **variables,
        }

    def command(self, args: Sequence[str | bytes]) -> list[str | bytes]:
        return [sys.executable, "-m", "tunelaunch", *args]

    def start(self, *args: str | bytes, stdin: str = "", program: Sequence[str] = (), **variables: str) -> Started:
        process = subprocess.Popen(
            [sys.executable, *program] if program else self.command(args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.path,
            env=self.environ(**variables),
        )
        out, err = process.communicate(stdin, timeout=60)
        lines = out.splitlines()
        given = json.loads(lines[0]) if lines and lines[0].startswith("{") else None
        rest = json.loads(lines[1]) if given is not None and len(lines) > 1 else None
        return Started(given, rest, process.returncode, err, process.pid)

    def install_plugin(self, group: str = "sglang.srt.plugins") -> None:
        """The plugin's metadata, as an installation of tunelaunch would leave it (with another group: without it)."""
        info = self.path / "site" / "tunelaunch-0.1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tunelaunch\nVersion: 0.1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\ntunelaunch = tunelaunch.ranks.plugin:register\n")


@pytest.fixture(scope="session")
def make_host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Host]:
    def make() -> Host:
        path = tmp_path_factory.mktemp("host")
        package = path / "site" / "sglang"
        package.mkdir(parents=True)
        (path / "run").mkdir()
        (package / "__init__.py").write_text("")
        (package / "launch_server.py").write_text(STAND_IN)
        host = Host(path)
        host.install_plugin(group="not.sglang")  # hides an installation of the Python that runs the tests
        return host

    return make


@pytest.fixture
def host(make_host: Callable[[], Host]) -> Host:
    return make_host()


@pytest.fixture(scope="session")
def shared_host(make_host: Callable[[], Host]) -> Host:
    """For examples that leave nothing behind that another one could see."""
    return make_host()

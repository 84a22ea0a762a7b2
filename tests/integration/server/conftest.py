"""Models and the starts that several test files look at; each is one boot of a real server."""

from __future__ import annotations

import json
import shutil
import signal
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from evidence import GEMM1, GEMM2
from serverkit import NAN, SCALED, SLOW, Ran, serve

from tunelaunch.demo.model import make_tiny_moe
from tunelaunch.demo.server import free_port


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for all servers; the plugins must be visible to them."""
    names = {point.name for point in entry_points(group="sglang.srt.plugins")}
    assert {"tunelaunch", "tunelaunch-cpu-host"} <= names, "not installed; run: pip install '.[test]'"
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def model(place: Path) -> Path:
    """A tiny MoE in float32: implementations differ by rounding only, far below what could change a greedy token."""
    return make_tiny_moe(place / "first" / "model", dtype="float32")


@pytest.fixture(scope="session")
def model_elsewhere(place: Path, model: Path) -> Path:
    """The same files at another path."""
    return Path(shutil.copytree(model, place / "second" / "another name"))


@pytest.fixture(scope="session")
def port() -> int:
    """One port for the two starts that have to have the same arguments."""
    return free_port()


@pytest.fixture(scope="session")
def plain(place: Path, model: Path, port: int) -> Ran:
    """SGLang without tunelaunch, at the first path; it leaves a cache of its own."""
    cache = place / "plain-sglang-cache"
    return serve(place / "plain", model, tunelaunch=False, port=port, end=signal.SIGTERM, sglang_cache=cache)


@pytest.fixture(scope="session")
def cold(place: Path, model: Path, port: int) -> Ran:
    """The first start of tunelaunch, with the same arguments and port."""
    return serve(place / "cold", model, port=port, end=signal.SIGTERM)


@pytest.fixture(scope="session")
def planted(place: Path) -> dict[str, str]:
    """The variables that spoil three tactics, and make each of them the best of its profile.

    In the layer the two wrong ones win as well, and clearly even on a busy machine: the rest of their stage is slow.
    """
    times = place / "times.json"
    times.write_text(json.dumps({GEMM1: {"3": {"*": 1e-5}, "2": {"*": 1e-4}}, GEMM2: {"6": {"*": 1e-5}}}))
    broken = {NAN: "nan", SCALED: "scale", SLOW: "slow"} | {(GEMM1, tactic): "slow" for tactic in (-1, 0, 1)}
    return {
        "TUNELAUNCH_CPU_HOST_BROKEN": ",".join(f"{op}={tactic}:{how}" for (op, tactic), how in broken.items()),
        "TUNELAUNCH_CPU_HOST_TIMES": str(times),
    }


@pytest.fixture(scope="session")
def bad_day(place: Path, cold: Ran, model: Path, planted: dict[str, str]) -> Ran:
    """All at once: a table that is cut after 40 bytes, a root with spaces, another list of plugins, wrong tactics."""
    root = Path(shutil.copytree(cold.directory / "root", place / "bad-day" / "root with spaces"))
    [table] = root.glob("v1/*/*/table.json")
    table.write_bytes(table.read_bytes()[:40])
    own = ("--tunelaunch-cache", str(root))
    return serve(place / "bad-day", model, *own, SGLANG_PLUGINS="tunelaunch-cpu-host", **planted)

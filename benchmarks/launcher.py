"""What tunelaunch costs before SGLang runs, and in processes that it did not start. No GPU, no model, no SGLang needed.

    python benchmarks/launcher.py [--rounds 9]

Three figures, each beside its target; every round takes each measurement once, so that drift is shared, and the median
over rounds counts:

- from the command to SGLang's first import, tunelaunch over ``python -m sglang.launch_server``. A stand-in package named
  ``sglang`` says when it is imported, by the clock that all processes of a machine share, and ends the process;
- ``tunelaunch --help``, from the command to its end;
- the plugin where it is inert: import of the entry point and its call, inside a fresh process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

STAND_IN = """
import os, time
os.write(1, repr(time.clock_gettime(time.CLOCK_MONOTONIC)).encode())
os._exit(0)
"""

# Long before SGLang loads a plugin it has listed every directory of the path, and imported __future__: so it is here.
INERT = """
import __future__, importlib.util, time
importlib.util.find_spec("no_module_of_this_name")
start = time.perf_counter()
from tunelaunch.ranks.plugin import register
register()
print(time.perf_counter() - start)
"""

ARGUMENTS = ("--model-path", "/models/current", "--tp", "2", "--port", "30000")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What tunelaunch costs before SGLang runs.")
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds; the median counts (default: 9)")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="tunelaunch-bench-") as directory:
        measures = _measures(Path(directory))
        for measure in measures.values():
            measure()  # byte code and file caches
        times: dict[str, list[float]] = {name: [] for name in measures}
        for _ in range(rounds):
            for name, measure in measures.items():
                times[name].append(measure())
    _print(times)
    return 0


def _measures(directory: Path) -> dict[str, Callable[[], float]]:
    site = directory / "site"
    (site / "sglang").mkdir(parents=True)
    (site / "sglang" / "__init__.py").write_text(STAND_IN)
    (site / "sglang" / "launch_server.py").touch()
    info = site / "tunelaunch-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tunelaunch\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\ntunelaunch = tunelaunch.ranks.plugin:register\n")
    (directory / "run").mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TUNELAUNCH_", "SGLANG_"))}
    # Byte code is kept, as by an installation, but not in the sources.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    environ |= {
        "PYTHONPYCACHEPREFIX": str(directory / "byte code"),
        "PYTHONPATH": f"{site}:{REPOSITORY}",
        "XDG_RUNTIME_DIR": str(directory / "run"),
        "TUNELAUNCH_CACHE_DIR": str(directory / "cache"),
    }
    return {
        "SGLang's first import, plain": lambda: _first_import("sglang.launch_server", environ),
        "SGLang's first import, tunelaunch": lambda: _first_import("tunelaunch", environ),
        "python -c pass": lambda: _whole(["-c", "pass"], environ),
        "tunelaunch --help": lambda: _whole(["-m", "tunelaunch", "--help"], environ),
        "inert plugin": lambda: float(_output(["-c", INERT], environ)),
    }


def _first_import(program: str, environ: Mapping[str, str]) -> float:
    """Seconds from the command until the stand-in was imported."""
    start = time.clock_gettime(time.CLOCK_MONOTONIC)
    return float(_output(["-m", program, *ARGUMENTS], environ)) - start


def _whole(arguments: list[str], environ: Mapping[str, str]) -> float:
    """Seconds from the command to its end."""
    start = time.perf_counter()
    _output(arguments, environ)
    return time.perf_counter() - start


def _output(arguments: list[str], environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=dict(environ), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def _print(times: Mapping[str, list[float]]) -> None:
    middle = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'measured':<36} {'median':>10} {'least':>10} {'most':>10}")
    for name, values in times.items():
        print(f"{name:<36} {_ms(middle[name])} {_ms(min(values))} {_ms(max(values))}")
    plain, ours = middle["SGLang's first import, plain"], middle["SGLang's first import, tunelaunch"]
    bare, shown = middle["python -c pass"], middle["tunelaunch --help"]
    print()
    print(f"{'target':<36} {'at most':>10} {'now':>10}  result, ratio")
    for name, most, now, ratio in (
        ("tunelaunch before SGLang's import", 0.25, ours - plain, f"{ours / plain:.2f}x plain"),
        ("tunelaunch --help", 0.2, shown, f"{shown / bare:.2f}x python -c pass"),
        ("inert plugin", 0.001, middle["inert plugin"], ""),
    ):
        print(f"{name:<36} {_ms(most)} {_ms(now)}  {'met' if now <= most else 'MISSED'}{', ' if ratio else ''}{ratio}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:>7.2f} ms"


if __name__ == "__main__":
    sys.exit(main())

"""``tunelaunch demo``: the whole cycle on this machine. Tune once, start again, profile nothing.

Two real starts of SGLang through ``python -m tunelaunch`` share one tunelaunch cache and nothing else (each gets an
empty SGLang cache of its own). What they did is read from tunelaunch's reports and, without a GPU, from a count that is
kept at FlashInfer's own profiling function. Exit code 1, with a named reason and the end of the log, unless the second
start profiled nothing and answered with the same tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tunelaunch.demo import machine
from tunelaunch.demo.server import DemoError, free_port, log_tail, running, wait_for
from tunelaunch.errors import UsageError

PROMPT = tuple(range(70, 94))
"""24 token ids: more than the largest batch of the CPU demo, and any tokenizer's business."""

ANSWER_TOKENS = 16
_REPORT_SECONDS = 60.0


@dataclass(frozen=True)
class Start:
    """What one start did. ``counted`` is the independent number of profiles, where there is one."""

    seconds: float
    tokens: list[int]
    report: Mapping[str, Any]
    counted: int | None
    log: Path


def main(argv: list[str]) -> int:
    """Run the demo; 0 if the second start profiled nothing and answered as the first, else 1."""
    args = _arguments(argv)
    setup = machine.plan()
    directory = _directory(args.keep)
    keep = args.keep is not None
    previous = signal.signal(signal.SIGTERM, _as_exit)
    try:
        _introduce(setup, directory)
        _cycle(setup, directory, cache=Path(args.cache or directory / "cache").absolute(), port=args.port)
    except DemoError as why:
        keep = True
        _fail(why)
        return 1
    finally:
        signal.signal(signal.SIGTERM, previous)
        if keep:
            say(f"kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


def _cycle(setup: machine.Setup, directory: Path, *, cache: Path, port: int | None) -> None:
    model = directory / "model"
    setup.make_model(model)
    fresh = not any(cache.glob("v1/*/*/table.json"))
    starts = []
    for number in (1, 2):
        say(f"start {number}: tunelaunch --model-path {model} {' '.join(setup.flags)}")
        start = _start(setup, directory / f"start{number}", model=model, cache=cache, port=port or free_port())
        _describe(number, start)
        starts.append(start)
    first, second = starts
    if fresh and not _profiles(first):
        raise DemoError("the first start profiled nothing although the cache was empty: nothing was shown", first.log)
    if _profiles(second):
        raise DemoError(f"the second start profiled {_profiles(second)} tactics; it should need none", second.log)
    if first.tokens != second.tokens:
        raise DemoError(f"the answers differ: {first.tokens} at first, then {second.tokens}", second.log)
    say(
        f"done: {_profiles(first)} profiles at the first start, 0 at the second; both answered with the same "
        f"{ANSWER_TOKENS} tokens"
    )
    say("for a real model, with the flags that you serve it with:")
    say("    tunelaunch --model-path /path/to/your/model --moe-runner-backend flashinfer_cutlass --port 30000")


def _start(setup: machine.Setup, directory: Path, *, model: Path, cache: Path, port: int) -> Start:
    counts = directory / "counts"
    counts.mkdir(parents=True)
    known = set(_reports(cache))
    log = directory / "server.log"
    command = [sys.executable, "-m", "tunelaunch", "--tunelaunch-cache", str(cache), "--model-path", str(model)]
    command += ["--host", "127.0.0.1", "--port", str(port), *setup.flags]
    environ = setup.environ(os.environ, counts=counts, sglang_cache=directory / "sglang-cache")
    with running(command, environ, port=port, log=log, say=say) as server:
        seconds = server.wait_ready(setup.seconds, say)
        tokens = server.generate(PROMPT, ANSWER_TOKENS)
        reports = wait_for(lambda: sorted(set(_reports(cache)) - known), _REPORT_SECONDS)
        if not reports:
            raise DemoError(f"tunelaunch wrote no report under {cache} for this start: its plugin did not run", log)
        report = json.loads(reports[-1].read_text(encoding="utf-8"))
        counted = _counted(counts, log) if setup.gpu is None else None
    return Start(seconds, tokens, report, counted, log)


def _counted(counts: Path, log: Path) -> int:
    from tunelaunch.demo.counts import read_profiles

    found = wait_for(lambda: read_profiles(counts), _REPORT_SECONDS)
    if not found:
        raise DemoError("the CPU host left no count: SGLang's autotune pass did not run", log)
    return sum(found.values())


def _reports(cache: Path) -> list[Path]:
    return sorted(cache.glob("v1/reports/*.json"))


def _profiles(start: Start) -> int:
    """The larger of both counts: a disagreement is never in favour of the demo."""
    return max(int(start.report.get("profiles") or 0), start.counted or 0)


def _introduce(setup: machine.Setup, directory: Path) -> None:
    say("this starts SGLang twice, on a small model made here, and compares what each start had to tune")
    if setup.gpu is not None:
        say(f"GPU: {setup.gpu}; random weights in the shape of a 128-expert model, so nothing is downloaded")
    else:
        say("no GPU was found: SGLang runs on the CPU, with tunelaunch's CPU host. Simulated:")
        for item in setup.simulated:
            say(f"  - {item}")
        say("real: server, scheduler, FlashInfer's AutoTuner, its files and lookups, tunelaunch. Takes a few minutes")
    say(f"files: {directory}")


def _describe(number: int, start: Start) -> None:
    from tunelaunch.report.summary import summary_lines

    counted = "" if start.counted is None else f"; counted at FlashInfer's profiler: {start.counted}"
    say(f"start {number}: ready after {start.seconds:.0f} s; answered {start.tokens}{counted}")
    for line in summary_lines(start.report):
        say(f"  {line}")


def _fail(why: DemoError) -> None:
    if why.log is not None:
        say(f"end of {why.log}:")
        for line in log_tail(why.log):
            say(f"  | {line}")
    print(f"tunelaunch demo: failed: {why}", file=sys.stderr, flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tunelaunch demo",
        description="Tune once, start again, profile nothing: on this machine, with or without a GPU.",
    )
    parser.add_argument("--keep", metavar="DIR", help="keep model, logs and reports in DIR (it must be empty or new)")
    parser.add_argument("--port", type=int, help="port of the server (default: a free one)")
    parser.add_argument("--cache", metavar="DIR", help="tunelaunch cache to use (default: an empty one)")
    return parser.parse_args(list(argv))


def _directory(keep: str | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="tunelaunch-demo-"))
    directory = Path(keep).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise UsageError(f"--keep {directory}: the directory is not empty; give another one")
    return directory


def _as_exit(number: int, frame: FrameType | None) -> None:
    # So that the blocks that stop the server run.
    raise SystemExit(128 + number)


def say(text: str) -> None:
    """One line of the demo's story, at once."""
    print(f"tunelaunch demo: {text}", flush=True)

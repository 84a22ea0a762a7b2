"""What a start left in files: counts of the CPU host, FlashInfer's saved rows, reports. Nothing comes from logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tunelaunch.demo.counts import read_profiles
from tunelaunch.demo.server import wait_for

GEMM1, GEMM2 = "tunelaunch_cpu::fused_moe::gemm1", "tunelaunch_cpu::fused_moe::gemm2"

Calls = dict[str, dict[str, dict[str, int]]]
"""{op: {tactic: {tokens: calls}}} outside of tuning, over all ranks."""


def load(paths: Iterable[Path]) -> list[Any]:
    """The JSON of each file, by path."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(paths)]


def profiles_by_rank(counts: Path) -> dict[int, int]:
    """Calls of ``AutoTuner._profile_single_kernel``, as the CPU host counted them."""
    ranks = {value["pid"]: value["rank"] for value in load(counts.glob("[0-9]*.tactics.json"))}
    return {ranks[pid]: profiles for pid, profiles in read_profiles(counts).items()}


def serving(counts: Path) -> Calls:
    """The tactics of every call so far. tunelaunch's own trials are in it: compare two moments with :func:`since`."""
    total: Calls = {}
    for value in load(counts.glob("[0-9]*.tactics.json")):
        for op, tactics in value["serving"].items():
            for tactic, sizes in tactics.items():
                into = total.setdefault(op, {}).setdefault(tactic, {})
                for size, number in sizes.items():
                    into[size] = into.get(size, 0) + number
    return total


def since(before: Any, now: Any) -> Any:
    """``now`` less ``before``, without what is then nothing."""
    if isinstance(now, dict):
        parts = {name: since(before.get(name, type(part)()), part) for name, part in now.items()}
        return {name: part for name, part in parts.items() if part}
    return now - before


def by_tokens(calls: Calls, op: str) -> dict[int, int]:
    """{tokens: calls} of an op, over its tactics."""
    total: dict[int, int] = {}
    for sizes in calls.get(op, {}).values():
        for size, number in sizes.items():
            total[int(size)] = total.get(int(size), 0) + number
    return total


def saved_rows(directory: Path, sglang_cache: Path) -> dict[int, dict[str, Any]]:
    """FlashInfer's file by rank: in tunelaunch's run directory, or where plain SGLang keeps its own (the newest)."""
    paths = {int(path.parent.name[5:]): path for path in directory.glob("run/tunelaunch-*/*/rank-*/harvest.json")}
    if not paths:
        newest = sorted(sglang_cache.rglob("rank_tp*.json"), key=lambda path: path.stat().st_mtime)
        paths = {int(found[1]): path for path in newest if (found := re.match(r"rank_tp(\d+)", path.name))}
    return {
        rank: {key: value for key, value in json.loads(path.read_text()).items() if key.startswith("(")}
        for rank, path in sorted(paths.items())
    }


def reports(directory: Path, seconds: float) -> list[Any]:
    """Reports of this start: under its root, or where writes go when that is read-only. Waits for one that long."""
    started = {path.name for path in directory.glob("run/tunelaunch-*/*/")} - {"cache"}

    def look() -> list[Path]:
        places = (*directory.glob("root*"), *directory.glob("run/tunelaunch-*/cache"))
        return [path for place in places for path in place.glob("v1/reports/*.json") if path.stem in started]

    return load(wait_for(look, seconds))


def expected_profiles(rows: Mapping[str, Any]) -> int:
    """Calls of the profiler that made ``rows``: the four tactics of the stage, and default."""
    return 5 * len(rows)


def tokens_of(key: str) -> int:
    """The bucket of a FlashInfer key of the CPU host's ops."""
    found = re.search(r"\(\((\d+), \d+\)", key)
    assert found, key
    return int(found[1])

"""The test's side of the rank harness: start a group, get each rank's result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
SHORT = ({"at": "tunelaunch.ranks.agree:RENDEZVOUS_SECONDS", "how": "set", "value": 3.0},
         {"at": "tunelaunch.ranks.agree:_MARGIN_SECONDS", "how": "set", "value": 1.0})  # fmt: skip


@dataclass(frozen=True)
class Start:
    """One start of a group: each rank's result by rank (``None``: it left none), exit statuses, seconds in all."""

    ranks: list[Any]
    exits: list[int | None]
    seconds: float
    logs: list[str]

    def profiles(self) -> list[int]:
        """Profiles that each rank ran, over all its passes."""
        return [sum(one["profiles"] for one in rank["passes"]) for rank in self.ranks]

    def rows(self) -> list[dict[str, Any]]:
        """FlashInfer's rows on each rank after its last pass."""
        return [rank["passes"][-1]["rows"] for rank in self.ranks]

    def tactics(self) -> list[dict[str, list[Any]]]:
        """The tactics that each rank ran while serving: {tokens: one a stage and layer}."""
        return [{tokens: one["tactics"] for tokens, one in rank["served"].items()} for rank in self.ranks]

    def served(self) -> bool:
        """Whether every rank finished all its passes and served."""
        return all(rank is not None and rank["outcome"] == "served" for rank in self.ranks)

    def fallbacks(self, rank: int = 0) -> list[str]:
        """What that rank said it did instead."""
        return list(self.ranks[rank]["receipt"]["fallbacks"])

    def states(self, rank: int = 0) -> set[str]:
        """States of all rows in that rank's receipt."""
        receipt = self.ranks[rank]["receipt"]
        return {row["state"] for one in receipt["passes"] for op in one["ops"] for row in op["rows"]}


class Nest:
    """A running nest (:mod:`support.nest`); one for many scenarios."""

    def __init__(
        self, world: str = "support.worlds", *, path: Sequence[Path] = (), env: Mapping[str, str] | None = None
    ):
        places = [*path, TESTS, TESTS.parent]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("TUNELAUNCH_", "SGLANG_"))}
        clean |= {"PYTHONPATH": os.pathsep.join(map(str, places)), "OMP_NUM_THREADS": "1"}
        # A library that is not there: SGLang then goes without NCCL, which a machine without a GPU has no use for.
        clean |= {"SGLANG_NCCL_SO_PATH": "/nonexistent", "HF_HUB_OFFLINE": "1", **(env or {})}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "support.nest", world],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean,
        )  # fmt: skip

    def start(
        self, directory: Path, *, world: int = 2, name: str = "start", each: Mapping[int, Mapping[str, Any]] | None = None,
        seconds: float = 60.0, env: Mapping[str, str] | None = None, faults: Sequence[Any] = (), **common: Any,
    ) -> Start:  # fmt: skip
        """Start ``world`` ranks under ``directory`` and wait for all.

        ``common`` are fields of every rank's spec, ``each`` of single ranks (by rank; ``env`` and ``faults`` are added).
        The cache root is ``directory/root`` unless a rank's ``env`` says otherwise.
        """
        run = directory / name
        run.mkdir(parents=True)
        specs = []
        for rank in range(world):
            own = dict((each or {}).get(rank, {}))
            variables = {
                "TUNELAUNCH_LAUNCH": name,
                "TUNELAUNCH_RUN_DIR": str(run),
                "TUNELAUNCH_CACHE_DIR": str(directory / "root"),
                "TUNELAUNCH_EFFORT": "quick",
                "SGLANG_CACHE_DIR": str(run / f"sglang-{rank}"),
                **(env or {}),
                **own.pop("env", {}),
            }
            planted = [*SHORT, *faults, *own.pop("faults", ())]
            spec = {"rank": rank, "world": world, "env": variables, "faults": planted, **common, **own}
            specs.append({**spec, "result": str(run / f"result-{rank}.json"), "log": str(run / f"log-{rank}.txt")})
        answer = self._ask({"ranks": specs, "seconds": seconds})
        results = [_read(Path(spec["result"])) for spec in specs]
        logs = [Path(spec["log"]).read_text(encoding="utf-8") for spec in specs]
        return Start(results, answer["exits"], answer["seconds"], logs)

    def _ask(self, scenario: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(scenario) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the nest ended with status {self._process.wait()}")
        return dict(json.loads(line))

    def close(self) -> None:
        """End the nest."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

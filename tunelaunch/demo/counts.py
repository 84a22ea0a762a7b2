"""An independent count of what FlashInfer was made to do, kept at the real call sites of this process.

Nothing here comes from tunelaunch's own bookkeeping, so it can contradict it. Where ``TUNELAUNCH_CPU_HOST_COUNTS``
names a directory, each process that serves leaves two files there, replaced atomically:

``<pid>.json``
    ``{"rank", "pid", "passes", "profiles"}``: calls of ``AutoTuner._profile_single_kernel``, written after each
    autotune pass (0 as well) and, should the count change later, within about 0.1 s.
``<pid>.tactics.json``
    ``{"rank", "pid", "tuning": {op: {tactic: {tokens: calls}}}, "serving": {...}}``: the tactic that each call of the
    layer ran. "tuning" is inside FlashInfer's autotune context, "serving" outside of it. Written within about 0.1 s of
    a change: a reader waits for the count that it expects. The difference across one /generate is the implementation
    that answered it.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

_FLUSH_SECONDS = 0.1


class Ledger:
    """Counters of one process; a timer thread writes them, so that the serving path only adds."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._pending = False
        self.rank = 0
        self.passes = 0
        self.profiles = 0
        self.calls: dict[str, dict[str, dict[str, dict[str, int]]]] = {"tuning": {}, "serving": {}}

    def add_profile(self) -> None:
        """One more call of ``_profile_single_kernel``."""
        with self._lock:
            self.profiles += 1
        self._soon()

    def add_call(self, op: str, tactic: Any, *, tokens: int, tuning: bool) -> None:
        """One more call of the layer that ran ``tactic`` for ``op``."""
        with self._lock:
            by_tokens = self.calls["tuning" if tuning else "serving"].setdefault(op, {}).setdefault(str(tactic), {})
            by_tokens[str(tokens)] = by_tokens.get(str(tokens), 0) + 1
        self._soon()

    def end_of_pass(self, rank: int) -> None:
        """An autotune pass of this process has ended, in success or failure."""
        with self._lock:
            self.rank = rank
            self.passes += 1
        self.flush()

    def flush(self) -> None:
        """Write both files now."""
        if self._directory is None:
            return
        with self._lock:
            self._pending = False
            who = {"rank": self.rank, "pid": os.getpid()}
            _replace(self._directory / f"{os.getpid()}.json", who | {"passes": self.passes, "profiles": self.profiles})
            _replace(self._directory / f"{os.getpid()}.tactics.json", who | self.calls)

    def _soon(self) -> None:
        if self._directory is None:
            return
        with self._lock:
            if self._pending or not self.passes:
                # Before the first pass has ended there is nothing to conclude from a file.
                return
            self._pending = True
        timer = threading.Timer(_FLUSH_SECONDS, self.flush)
        timer.daemon = True
        timer.start()


def _replace(path: Path, value: dict[str, Any]) -> None:
    # A dotted name without .json: readers that list *.json never meet a half-written file.
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(value, sort_keys=True), encoding="utf-8")
    temporary.replace(path)


def _directory() -> Path | None:
    text = os.environ.get("TUNELAUNCH_CPU_HOST_COUNTS", "")
    return Path(text) if text and Path(text).is_dir() else None


LEDGER = Ledger(_directory())


def read_profiles(directory: Path) -> dict[int, int]:
    """{pid: profiles} of every process that left a count in ``directory``."""
    found = {}
    for path in sorted(directory.glob("[0-9]*.json")):
        if not path.name.endswith(".tactics.json"):
            value = json.loads(path.read_text(encoding="utf-8"))
            found[int(value["pid"])] = int(value["profiles"])
    return found


def read_serving(directory: Path) -> dict[str, dict[str, int]]:
    """{op: {tactic: calls while serving}} over every process that left a count in ``directory``."""
    total: dict[str, dict[str, int]] = {}
    for path in sorted(directory.glob("[0-9]*.tactics.json")):
        for op, tactics in json.loads(path.read_text(encoding="utf-8"))["serving"].items():
            for tactic, by_tokens in tactics.items():
                counts = total.setdefault(op, {})
                counts[tactic] = counts.get(tactic, 0) + sum(by_tokens.values())
    return total

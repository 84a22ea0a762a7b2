"""The remote of a start: pulled before tuning, pushed to after it.

Guarantees: a start never waits longer than :data:`BUDGET_S` for its remote, all calls together, whatever the remote does
(it may hang without an end); nothing here raises. What is late is ignored: a late pull is killed, a late push goes on in
its own process for a minute, so that it usually still arrives.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.errors import ShareError
from tunelaunch.share.document import SharedTable, parse
from tunelaunch.share.errand import LIFETIME_S
from tunelaunch.share.url import shown
from tunelaunch.store import TableId

BUDGET_S = 3.0
PULL_S = 2.0
"""At most this much of the budget goes into pulling, so that something is left for the push."""


@dataclass
class LaunchRemote:
    """One remote during one start. ``left_s`` is what may still be waited, ``pull_s`` how much of it for the pull."""

    url: str
    left_s: float = BUDGET_S
    pull_s: float = PULL_S
    problems: list[str] = field(default_factory=list)
    _pulled: dict[TableId, SharedTable | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The URL without secrets."""
        return shown(self.url)

    def pull(self, tid: TableId) -> SharedTable | None:
        """The remote's table, asked for once; ``None`` where there is none or it does not come in time."""
        if tid not in self._pulled:
            self._pulled[tid] = self._pull(tid)
        return self._pulled[tid]

    def push(self, table: SharedTable) -> None:
        """Add ``table`` to the remote; waits for what is left of the budget and no longer."""
        request = {"action": "push", "table": table.to_bytes().decode("ascii")}
        said = self._ask(request, self.left_s, keep=True)
        if said is None:
            self._say("has not taken the new rows in time; the push goes on beside the start")
        elif said.get("problem"):
            self._say(f"was not pushed to ({said['problem']}); to try again: tunelaunch push {self.name}")

    def _pull(self, tid: TableId) -> SharedTable | None:
        request = {"action": "pull", "device": tid.device, "environment": tid.environment}
        said = self._ask(request, min(self.pull_s, self.left_s), keep=False)
        if said is None:
            self._say(f"has not answered within {self.pull_s:.0f} s; the start goes on without it")
            return None
        if said.get("problem"):
            self._say(f"was not read ({said['problem']}); the start goes on without it")
            return None
        for problem in said.get("problems") or ():
            self._say(f"{problem}")
        text = said.get("table")
        try:
            return parse(text.encode("ascii"), f"remote {self.name}") if isinstance(text, str) else None
        except ShareError as why:
            self._say(str(why))
            return None

    def _ask(self, request: Mapping[str, Any], wait_s: float, *, keep: bool) -> dict[str, Any] | None:
        """The answer of an errand, or ``None`` when it is late. ``keep``: a late one goes on."""
        started = time.monotonic()
        body = json.dumps({**request, "url": self.url}).encode("ascii")
        answers: list[dict[str, Any]] = []
        errands: list[subprocess.Popen[bytes]] = []
        worker = threading.Thread(target=_run, args=(body, errands, answers), name="tunelaunch-remote", daemon=True)
        worker.start()
        worker.join(max(0.0, wait_s))
        self.left_s = max(0.0, self.left_s - (time.monotonic() - started))
        if answers:
            return answers[0]
        if not keep and errands:
            errands[0].kill()
        return None

    def _say(self, text: str) -> None:
        self.problems.append(f"remote {self.name}: {text}")


def _run(body: bytes, errands: list[subprocess.Popen[bytes]], answers: list[dict[str, Any]]) -> None:
    """Start an errand and wait for it; in a thread, because even killing a process can take forever on a dead mount."""
    try:
        errand = subprocess.Popen(
            [sys.executable, "-m", "tunelaunch.share.errand"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        errands.append(errand)
        out, err = errand.communicate(body, timeout=LIFETIME_S + 5)
        last = err.decode("utf-8", "replace").strip().splitlines()[-1:]
        answers.append(json.loads(out) if out else {"problem": last[0] if last else "its process ended without a word"})
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        answers.append({"problem": f"{type(error).__name__}: {error}"})

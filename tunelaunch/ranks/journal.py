"""The journal of probes: what was being tried, so that a tactic that kills the process is skipped next time.

One small file a process, under the table's ``journal/``, holds the tactic in flight while a pass is under way. A file that
is left over names what the process died of (or was killed in: the two cannot be told apart, so that such an entry
expires). After a probe that ruined the CUDA context the file is frozen, since the process will die later, elsewhere.
Guarantee: no fault of the disk gets out; without a journal tuning goes on.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Combo
from tunelaunch.store.hidden import every_row_of

EXPIRES_DAYS = 7
"""How long a tactic is skipped that was in flight when a process ended: a kill by hand must not cost it for ever."""

SCHEMA = "tunelaunch/journal/1"


@dataclass
class Journal:
    """The probe under way in this process. ``path`` is ``None`` where no journal can be kept."""

    path: Path | None
    launch: str
    _file: int | None = None
    _frozen: bool = False
    _head: dict[str, Any] = field(default_factory=dict)

    def begin(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """``rows`` (op, scope, key, runner, tactic) are about to run together. About ten microseconds; no fsync."""
        if self.path is None or self._frozen:
            return
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o666)
                self._head = {
                    "schema": SCHEMA,
                    "launch": self.launch,
                    "host": socket.gethostname(),
                    **_process(os.getpid()),
                }
            data = json.dumps({**self._head, "rows": list(rows)}).encode()
            os.pwrite(self._file, data, 0)
            os.ftruncate(self._file, len(data))
        except OSError:
            self.path = None

    def choice(self, case: Case, combo: Combo) -> None:
        """A choice of a trial is about to run in its layer."""
        keys = {op: (scope, key) for op, scope, key in case.stages}
        self.begin(
            [
                {"op": op, "scope": keys[op][0], "key": keys[op][1], "runner": runner or "", "tactic": tactic}
                for op, runner, tactic in combo
            ]
        )

    def freeze(self) -> None:
        """Keep the file as it is for the next start: what it names ruined this process."""
        self._frozen = True

    def end(self) -> None:
        """The pass is over and the process lives: nothing to remember."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if self.path is not None and not self._frozen:
                self.path.unlink(missing_ok=True)


def leftovers(folder: Path) -> list[dict[str, Any]]:
    """Quarantine entries for what dead processes were trying; their files are removed. Damaged files are removed too."""
    entries: list[dict[str, Any]] = []
    try:
        paths = sorted(folder.glob("*.json"))
    except OSError:
        return entries
    for path in paths:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if _alive(found):
                continue
            entries += [_entry(row, found) for row in found["rows"] if row["tactic"] != -1]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        try:
            path.unlink()
        except OSError:
            continue
    return entries


def expired(entry: Mapping[str, Any], now: float | None = None) -> bool:
    """Whether a quarantine entry has run out."""
    until = entry.get("expires")
    return isinstance(until, str) and until < _stamp(time.time() if now is None else now)


def _entry(row: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    now = time.time()
    return {
        **{name: row[name] for name in ("op", "scope", "runner", "tactic")},
        "key": every_row_of(row["op"]),
        "why": "its process ended while it was tried",
        "seen": f"launch {found.get('launch')}",
        "at": _stamp(now),
        "launch": str(found.get("launch")),
        "expires": _stamp(now + EXPIRES_DAYS * 86400),
    }


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _process(pid: int) -> dict[str, Any]:
    """A process by number and start time, so that a recycled number is not taken for it."""
    try:
        start = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        start = None
    return {"pid": pid, "started": start}


def _alive(found: Mapping[str, Any]) -> bool:
    """Whether the process of a journal file still runs. One on another host is taken to run: that host will look itself."""
    if found.get("host") != socket.gethostname():
        return True
    pid = int(found["pid"])
    return Path(f"/proc/{pid}").exists() and _process(pid)["started"] == found.get("started")

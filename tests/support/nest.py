"""A process that imports the host once and forks ranks from itself: each scenario then starts in a fraction of a second.

Reads one JSON scenario a line from standard input, ``{"ranks": [spec, ...], "seconds": limit}``, and answers with one
line, ``{"exits": [status or null, ...], "seconds": s}``. A rank stays alive until all have left their results (rank 0
holds the world's TCP store) or the limit is over; then what still runs is killed, by the pids forked here. A scenario
without ranks is answered at once, to say that the nest is ready.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any


def main() -> None:
    """``python -m support.nest MODULE``: the module of this package whose host shall be used."""
    world = importlib.import_module(sys.argv[1])
    world.prepare()
    for line in sys.stdin:
        scenario = json.loads(line)
        begun = time.monotonic()
        exits = _run(scenario["ranks"], scenario.get("seconds", 60.0), world)
        print(json.dumps({"exits": exits, "seconds": round(time.monotonic() - begun, 3)}), flush=True)


def _run(specs: list[dict[str, Any]], seconds: float, world: Any) -> list[int | None]:
    port = _free_port()
    release_read, release_write = os.pipe()
    pids, done = [], {}
    for number, spec in enumerate(specs):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(release_write)
            os.close(read)
            _become({**spec, "port": port}, world, write, release_read)
        os.close(write)
        pids.append(pid)
        done[read] = number
    os.close(release_read)
    _wait(set(done), seconds)
    os.close(release_write)
    late = _reap(pids, 5.0)
    for read in done:
        os.close(read)
    return [late[pid] for pid in pids]


def _become(spec: dict[str, Any], world: Any, write: int, release: int) -> None:
    from support import rank

    try:
        with open(spec["log"], "ab", buffering=0) as log:  # noqa: PTH123 - its number replaces this process's output
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        rank.main(spec, world)
        os.write(write, b".")
        os.read(release, 1)
        os._exit(0)
    except BaseException:
        os._exit(70)


def _wait(pending: set[int], seconds: float) -> None:
    """Until every rank has written its byte or is gone (its pipe then reads as closed)."""
    end = time.monotonic() + seconds
    while pending and (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select(list(pending), [], [], left)
        pending -= set(ready)


def _reap(pids: list[int], seconds: float) -> dict[int, int | None]:
    """Exit statuses; ``None`` for a rank that had to be killed here."""
    found: dict[int, int | None] = {}
    end = time.monotonic() + seconds
    for pid in pids:
        descriptor = os.pidfd_open(pid)
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        os.close(descriptor)
        if not ready:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        found[pid] = status if ready else None
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()

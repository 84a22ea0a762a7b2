"""Publish in a child that kills itself at its n-th call into the system, for every n, and check what is left.

Run by test_store_concurrency.py as ``python killed_publisher.py SCENARIO DIRECTORY``; prints the number of kill points.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from storekit import ENVIRONMENT, TID, row

from tunelaunch.store import Row, Store

CALLS = ("open", "write", "fsync", "replace", "unlink", "mkdir", "link", "rename")
OLD, NEW, LATER = [row(1, 14), row(2, 3)], [row(1, 15), row(3)], [row(4)]


def arm(number: int) -> None:
    """Die before the ``number``-th call; in a write, after half of the bytes."""
    left = [number]

    def wrap(name: str) -> Any:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name))


def prepare(scenario: str, root: Path) -> None:
    if scenario == "first":
        return
    path = Path(Store.open(root).publish(TID, OLD, environment=ENVIRONMENT).path or "")
    if scenario == "damaged":
        path.write_bytes(path.read_bytes()[:40])
    if scenario == "lockless":
        (path.parent / ".lock").unlink()
        (path.parent / ".lock").mkdir()
    if scenario == "rollback":
        Store.open(root).publish(TID, NEW, environment=ENVIRONMENT, replace=True)


def act(scenario: str, root: Path) -> None:
    store = Store(root)
    out = store.rollback(TID) if scenario == "rollback" else store.publish(TID, NEW, environment={}, replace=True)
    assert out.generation is not None, out


def states(scenario: str) -> list[set[Row]]:
    new = {row(1, 15), row(2, 3), row(3)}
    if scenario in ("first", "damaged"):
        return [set(), set(NEW)]
    return [new, set(OLD)] if scenario == "rollback" else [set(OLD), new]


def check(scenario: str, root: Path) -> bool:
    """Old or new state, nothing odd, and the next writer neither waits nor loses. Returns whether it is the new one."""
    loaded = Store.open(root).load(TID)
    rows = set(loaded.table.rows) if loaded.table else set()
    assert rows in states(scenario), rows
    assert scenario == "damaged" or loaded.problems == (), loaded.problems
    started = time.monotonic()
    out = Store.open(root).publish(TID, LATER, environment=ENVIRONMENT)
    assert out.generation is not None, out
    assert time.monotonic() - started < 3.0
    table = Store.open(root).load(TID).table
    assert table is not None
    assert set(table.rows) == rows | set(LATER)
    return rows == states(scenario)[1]


def main(scenario: str, directory: Path) -> None:
    outcomes = []
    for number in itertools.count(1):
        root = directory / str(number)
        prepare(scenario, root)
        child = os.fork()
        if child == 0:
            arm(number)
            act(scenario, root)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        outcomes.append(check(scenario, root))
        shutil.rmtree(root)
    # Once the new state is there it stays: the commit is one call.
    assert outcomes == sorted(outcomes), outcomes
    assert set(outcomes) == {False, True}
    print(len(outcomes))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

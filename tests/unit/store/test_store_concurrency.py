"""Several writers at once, and writers that die."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from storekit import ENVIRONMENT, TID, finish, python, row

from tunelaunch.store import Store, locked

WRITER = """
import sys
from storekit import ENVIRONMENT, TID, row
from tunelaunch.store import Store
store = Store.open(sys.argv[1])
me, count = int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    out = store.publish(TID, [row(me * 100 + number)], environment=ENVIRONMENT, launch=str(me))
    assert out.generation is not None and out.added == 1 and out.problems == (), out
    store.add_quarantine(TID, [{"key": f"{me}-{number}"}])
"""


def run_writers(root: Path, writers: int, count: int) -> None:
    children = [python(WRITER, str(root), str(me), str(count)) for me in range(writers)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        finish(child)


def assert_all_there(store: Store, writers: int, count: int) -> None:
    loaded = store.load(TID)
    assert loaded.problems == ()
    assert loaded.table is not None
    assert set(loaded.table.rows) == {row(me * 100 + number) for me in range(writers) for number in range(count)}
    assert loaded.table.generation == writers * count
    assert len(store.read_quarantine(TID)) == writers * count
    assert store.problems == []


def test_sixteen_processes_that_publish_together_lose_no_row(store: Store, root: Path) -> None:
    run_writers(root, 16, 2)
    assert_all_there(store, 16, 2)


def test_no_row_is_lost_where_locks_do_not_work(store: Store, root: Path) -> None:
    (root / "v1" / TID.device / TID.environment / ".lock").mkdir(parents=True)
    run_writers(root, 6, 4)
    assert_all_there(store, 6, 4)


def test_threads_of_one_process_lose_no_row(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        outs = list(pool.map(lambda n: store.publish(TID, [row(n)], environment=ENVIRONMENT), range(16)))
    assert [out.problems for out in outs] == [()] * 16
    table = store.load(TID).table
    assert table is not None
    assert set(table.rows) == {row(number) for number in range(16)}


@pytest.mark.parametrize("scenario", ["first", "second", "damaged", "lockless", "rollback"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_generation(scenario: str, tmp_path: Path) -> None:
    code = (Path(__file__).parent / "killed_publisher.py").read_text(encoding="utf-8")
    assert int(finish(python(code, scenario, str(tmp_path)), timeout_s=300)) >= 10


HOLDER = """
import sys
from pathlib import Path
from tunelaunch.store import locked
with locked(Path(sys.argv[1])) as held:
    print(held, flush=True)
    sys.stdin.readline()
"""


def test_a_lock_is_held_by_one_and_a_dead_holder_stops_nobody(store: Store) -> None:
    path = Path(store.publish(TID, [row(1)], environment=ENVIRONMENT).path or "").parent / ".lock"
    holder = python(HOLDER, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    with locked(path, timeout_s=0.1) as held:
        assert not held
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    started = time.monotonic()
    assert store.publish(TID, [row(2)], environment=ENVIRONMENT).generation == 2
    assert time.monotonic() - started < 2.0


def test_a_holder_that_hangs_delays_a_publish_by_seconds_and_does_not_stop_it(store: Store) -> None:
    path = Path(store.publish(TID, [row(1)], environment=ENVIRONMENT).path or "").parent / ".lock"
    holder = python(HOLDER, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    started = time.monotonic()
    assert store.publish(TID, [row(2)], environment=ENVIRONMENT).generation == 2
    assert time.monotonic() - started < 8.0
    holder.communicate("\n")
    assert holder.returncode == 0


def test_locking_never_raises(tmp_path: Path) -> None:
    for odd in (tmp_path, tmp_path / "nul\0byte", Path("/proc/none/lock"), Path("/dev/null/lock")):
        with locked(odd, timeout_s=0.1) as held:
            assert not held


def test_an_error_of_the_caller_passes_through_the_lock_and_frees_it(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), locked(tmp_path / "lock"):
        raise OSError("mine")
    with locked(tmp_path / "lock", timeout_s=0.1) as held:
        assert held

"""Remotes: objects that are only added, merged by evidence, and never a burden for a start."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sharekit import FIELDS, KEY, OTHER, OTHER_FIELDS, REPOSITORY, TID, key, publish, row, rows_at, table

from tunelaunch.cli.main import main
from tunelaunch.contract import Contract
from tunelaunch.errors import ShareError
from tunelaunch.ranks.sources import Sources
from tunelaunch.share.atlaunch import BUDGET_S, LaunchRemote
from tunelaunch.share.places import DirectoryPlace, HttpPlace, open_place
from tunelaunch.share.remote import news, read_remote, tables_at, write_remote
from tunelaunch.share.signing import Trust
from tunelaunch.store import Store

OPEN = Trust()
ENVIRONMENT = table([]).environment


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNELAUNCH_CACHE_DIR", "TUNELAUNCH_KEY_FILE", "TUNELAUNCH_REQUIRE_SIGNED"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


@pytest.fixture
def place(tmp_path: Path) -> DirectoryPlace:
    return DirectoryPlace(tmp_path / "remote")


def merged(place: Any, trust: Trust = OPEN) -> dict[str, Any]:
    read = read_remote(place, TID, trust)
    return {r.key: r.tactic for r in read.table.rows} if read.table else {}


def test_objects_are_merged_by_evidence_and_writing_twice_adds_nothing(place: DirectoryPlace) -> None:
    first = table([row(1, 1), row(2, 1, evidence={"choice": "profile"})])
    names = {write_remote(place, t, OPEN) for t in (first, table([row(2, 2), row(3, 2)]), first)}
    assert len(names) == 2
    assert merged(place) == {key(1): 1, key(2): 2, key(3): 2}
    assert tables_at(place) == [TID]
    assert tables_at(place, device="other") == []


def test_only_what_is_news_is_pushed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(tmp_path / "a", [row(1), row(2, evidence={"unverified": True})])
    args = ["push", str(tmp_path / "remote"), "--tunelaunch-cache", str(tmp_path / "a"), "--format", "json"]
    assert main([*args, "--dry-run"]) == 0
    assert not (tmp_path / "remote").exists()
    capsys.readouterr()
    counts = []
    for _ in range(2):
        assert main(args) == 0
        counts.append(json.loads(capsys.readouterr().out)["tables"][0]["rows"])
    assert counts == [1, 0]
    assert merged(DirectoryPlace(tmp_path / "remote")) == {key(1): 14}


def test_pull_merges_into_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publish(tmp_path / "a", [row(1, 5)])
    publish(tmp_path / "a", [row(1, 5)], OTHER_FIELDS)
    publish(tmp_path / "b", [row(2, 6)])
    url = (tmp_path / "remote").as_uri()
    assert main(["push", url, "--tunelaunch-cache", str(tmp_path / "a")]) == 0
    pull = ["pull", url, "--tunelaunch-cache", str(tmp_path / "b")]
    assert main([*pull, "--dry-run"]) == 0
    assert rows_at(tmp_path / "b") == {key(2): 6}
    assert main([*pull, "--environment", TID.environment]) == 0
    assert (rows_at(tmp_path / "b"), rows_at(tmp_path / "b", OTHER)) == ({key(1): 5, key(2): 6}, {})
    capsys.readouterr()
    assert main(pull) == 0
    assert "flashinfer.cudnn_version: saved 92000, current 92101" in capsys.readouterr().err
    assert main([*pull, "--expect-environment", TID.environment]) == 1


def test_a_bad_object_is_named_and_hides_no_other(place: DirectoryPlace) -> None:
    good = write_remote(place, table([row(1)]), OPEN)
    folder = place.top / "v1" / TID.device / TID.environment / "objects"
    (folder / f"{'0' * 64}.json").write_bytes((folder / good).read_bytes())
    (folder / f"{hashlib.sha256(b'{').hexdigest()}.json").write_bytes(b"{")
    foreign = table([row(2)], OTHER_FIELDS).to_bytes()
    (folder / f"{hashlib.sha256(foreign).hexdigest()}.json").write_bytes(foreign)
    (folder / "../../x.json").write_text("not an object")
    (folder / "notes.txt").write_text("not an object")
    read = read_remote(place, TID, OPEN)
    assert read.table is not None
    assert [r.key for r in read.table.rows] == [key(1)]
    assert len(read.problems) == 3
    assert any("torn" in p for p in read.problems)
    assert any(f"it is of {OTHER}" in p for p in read.problems)


def test_with_a_key_only_signed_objects_count(place: DirectoryPlace) -> None:
    write_remote(place, table([row(1)]), OPEN)
    name = write_remote(place, table([row(2)]), Trust(KEY))
    assert set(merged(place, Trust(KEY))) == {key(2)}
    assert set(merged(place)) == {key(1), key(2)}
    assert merged(place, Trust(required=True)) == {}
    with pytest.raises(ShareError, match="no key to sign with"):
        write_remote(place, table([row(3)]), Trust(required=True))
    folder = place.top / "v1" / TID.device / TID.environment / "objects"
    digest, mac, _ = name.split(".")
    (folder / name).rename(folder / f"{digest}.{mac[::-1]}.json")
    assert merged(place, Trust(KEY)) == {}


def test_news_are_rows_with_more_evidence_and_new_quarantines() -> None:
    there = table([row(1, 1, evidence={"choice": "profile"}), row(2, 1)])
    entry = {"key": key(2), "tactic": 1, "runner": "MoERunner", "scope": None}
    fresh = news(table([row(1, 2), row(2, 2), row(3, 2)], quarantine=(entry,)), there)
    assert fresh is not None
    assert {r.key for r in fresh.rows} == {key(1), key(3)}
    assert fresh.quarantine == (entry,)
    assert news(there, there) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("nosuchscheme://x/y", "cannot be opened"),
        ("", "empty"),
        ("http://user:secret@127.0.0.1:1/x", "cannot be reached"),
        ("file://host/x", "three slashes"),
    ],
)
def test_a_remote_that_is_none_is_refused_without_its_secrets(
    tmp_path: Path, url: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", url, "--tunelaunch-cache", str(tmp_path / "b")]) == 1
    said = capsys.readouterr().err
    assert why in said
    assert "secret" not in said


@pytest.mark.parametrize(
    ("url", "command"), [("s3://b/p", "'tunelaunch[s3]'"), ("gs://b", "'tunelaunch[remote]' gcsfs")]
)
def test_what_is_missing_for_a_scheme_is_said_with_the_command(url: str, command: str) -> None:
    code = (
        "import sys; sys.modules['fsspec'] = None; sys.modules['fsspec.core'] = None\n"
        "from tunelaunch.cli.main import main; sys.exit(main(['pull', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install {command}" in done.stderr


def test_any_file_system_of_fsspec_serves(tmp_path: Path) -> None:
    place = open_place("memory://bucket/prefix")
    write_remote(place, table([row(1, 5)]), OPEN)
    write_remote(place, table([row(2, 6)]), OPEN)
    assert tables_at(place) == [TID]
    assert merged(place) == {key(1): 5, key(2): 6}
    with pytest.raises(ShareError, match="does not exist"):
        place.read("v1/none.json", 10)


# At a start


def patient(url: str) -> Sources:
    """The sources of a start that waits for as long as a busy machine needs."""
    return Sources(remote=LaunchRemote(url, left_s=60.0, pull_s=60.0))


def test_a_contract_names_seeds_and_remote() -> None:
    sources = Sources.of(replace(Contract("L", "/run", "/cache"), seeds=("/a", "/b"), remote="s3://user:pw@b/p"))
    assert sources.seeds == ("/a", "/b")
    assert sources.remote is not None
    assert (sources.remote.name, sources.remote.left_s) == ("s3://b/p", BUDGET_S)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/tables"


def test_a_remote_that_never_answers_costs_no_more_than_the_budget(silent: str) -> None:
    remote = LaunchRemote(silent)
    started = time.monotonic()
    assert remote.pull(TID) is None
    assert remote.pull(TID) is None
    for _ in range(3):
        remote.push(table([row(1)]))
    assert time.monotonic() - started < BUDGET_S + 0.5
    assert "has not answered" in remote.problems[0]


def test_a_start_pulls_what_it_lacks_keeps_it_and_pushes_what_it_tuned(tmp_path: Path) -> None:
    write_remote(DirectoryPlace(tmp_path / "remote"), table([row(1, 5), row(2, 5)]), OPEN)
    start, store = patient(str(tmp_path / "remote")), Store.open(tmp_path / "b")
    more = start.more(TID, ENVIRONMENT, [row(2, 9)], store, True)
    assert ({r.key: r.tactic for r in more.rows}, more.problems) == ({key(1): 5}, ())
    assert rows_at(tmp_path / "b") == {key(1): 5}
    assert start.push(TID, FIELDS, [row(3, 7)], []) == []
    assert merged(DirectoryPlace(tmp_path / "remote")) == {key(1): 5, key(2): 5, key(3): 7}
    assert start.used(more.rows) == {"seeds": {}, "remote": {str(tmp_path / "remote"): 1}}


def test_a_start_that_may_not_write_keeps_nothing(tmp_path: Path) -> None:
    write_remote(DirectoryPlace(tmp_path / "remote"), table([row(1, 5)]), OPEN)
    start = patient(str(tmp_path / "remote"))
    store = Store.open(tmp_path / "b", readonly=True)
    assert len(start.more(TID, ENVIRONMENT, [], store, False).rows) == 1
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "nosuchscheme://x", "", "file://host/x", "/proc/none/x"])
def test_a_remote_at_fault_is_a_line_and_never_an_error(tmp_path: Path, url: str) -> None:
    start = patient(url)
    more = start.more(TID, ENVIRONMENT, [], Store.open(tmp_path / "b"), True)
    assert more.rows == ()
    problems = [*more.problems, *start.push(TID, FIELDS, [row(1)], [])]
    assert problems
    assert all(p.startswith("remote ") for p in problems)


# HTTP


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The standard library's web server over a directory remote, as a process of its own."""
    (tmp_path / "remote").mkdir()
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "-d", str(tmp_path / "remote")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split("(")[1].split(")")[0].rstrip("/")
    finally:
        server.terminate()
        server.wait()


def test_a_web_server_over_a_remote_can_be_pulled_from_but_not_pushed_to(tmp_path: Path, web: str) -> None:
    write_remote(DirectoryPlace(tmp_path / "remote"), table([row(1, 5)]), OPEN)
    assert main(["pull", web, "--tunelaunch-cache", str(tmp_path / "b")]) == 0
    assert rows_at(tmp_path / "b") == {key(1): 5}
    assert read_remote(HttpPlace(web), OTHER, OPEN).table is None
    with pytest.raises(ShareError, match="only be read"):
        write_remote(HttpPlace(web), table([row(2)]), OPEN)


def test_a_bundle_is_imported_over_http(tmp_path: Path, web: str) -> None:
    publish(tmp_path / "a", [row(1, 5)])
    assert main(["export", str(tmp_path / "remote" / "x.tar"), "--tunelaunch-cache", str(tmp_path / "a")]) == 0
    assert main(["import", f"{web}/x.tar", "--tunelaunch-cache", str(tmp_path / "b")]) == 0
    assert rows_at(tmp_path / "b") == {key(1): 5}
    assert main(["import", f"{web}/none.tar", "--tunelaunch-cache", str(tmp_path / "c")]) == 1
    assert not (tmp_path / "c").exists()


def test_threads_that_push_the_same_object_agree(place: DirectoryPlace) -> None:
    shared = table([row(n) for n in range(50)])
    threads = [threading.Thread(target=write_remote, args=(place, shared, OPEN)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(os.listdir(place.top / "v1" / TID.device / TID.environment / "objects")) == 1  # noqa: PTH208
    assert len(merged(place)) == 50

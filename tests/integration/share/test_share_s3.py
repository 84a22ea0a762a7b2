"""An S3 bucket, spoken to a server of its own process: s3fs on this side, moto's server on the other."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "share"))
from sharekit import KEY, TID, key, publish, row, rows_at, table

from tunelaunch.cli.main import main
from tunelaunch.share.atlaunch import LaunchRemote
from tunelaunch.share.places import open_place
from tunelaunch.share.remote import read_remote, write_remote
from tunelaunch.share.signing import Trust

READY_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while not _answers(address):
            assert process.poll() is None, "the S3 server ended"
            assert time.monotonic() < deadline, "the S3 server does not answer"
        yield address
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A URL in a bucket of its own, and credentials in the environment, as a host has them."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": server,
        "XDG_RUNTIME_DIR": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    name = f"tables-{abs(hash(str(tmp_path)))}"
    import s3fs

    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}/tunelaunch"


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/moto-api/", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_one_host_pushes_to_a_bucket_and_another_pulls(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(tmp_path / "a", [row(1, 5), row(2, 5)])
    publish(tmp_path / "b", [row(2, 9)])
    push = ["push", bucket, "--tunelaunch-cache", str(tmp_path / "a"), "--format", "json"]
    counts = []
    for _ in range(2):
        capsys.readouterr()
        assert main(push) == 0
        counts.append(json.loads(capsys.readouterr().out)["tables"][0]["rows"])
    assert counts == [2, 0]
    assert main(["pull", bucket, "--tunelaunch-cache", str(tmp_path / "b")]) == 0
    assert rows_at(tmp_path / "b") == {key(1): 5, key(2): 9}


def test_what_others_push_meanwhile_is_seen(bucket: str) -> None:
    here, there = open_place(bucket), open_place(bucket)
    for number in range(3):
        write_remote(there, table([row(number)]), Trust(KEY))
        read = read_remote(here, TID, Trust(KEY))
        assert read.table is not None
        assert (len(read.table.rows), read.problems) == (number + 1, ())


def test_a_bundle_in_a_bucket_is_imported(bucket: str, tmp_path: Path) -> None:
    publish(tmp_path / "a", [row(1, 5)])
    assert main(["export", str(tmp_path / "x.tar"), "--tunelaunch-cache", str(tmp_path / "a")]) == 0
    open_place(bucket).write("x.tar", (tmp_path / "x.tar").read_bytes())
    assert main(["import", f"{bucket}/x.tar", "--tunelaunch-cache", str(tmp_path / "b")]) == 0
    assert rows_at(tmp_path / "b") == {key(1): 5}


def test_a_start_pulls_from_a_bucket(bucket: str) -> None:
    write_remote(open_place(bucket), table([row(1, 5)]), Trust())
    remote = LaunchRemote(bucket, left_s=60.0, pull_s=60.0)
    pulled = remote.pull(TID)
    assert remote.problems == []
    assert pulled is not None
    assert [r.tactic for r in pulled.rows] == [5]


def test_a_bucket_that_is_not_there_is_a_named_refusal(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", "s3://no-such-bucket-here/x", "--tunelaunch-cache", str(tmp_path / "b")]) == 1
    assert "s3://no-such-bucket-here" in capsys.readouterr().err
    publish(tmp_path / "a", [row(1)])
    assert main(["push", "s3://no-such-bucket-here/x", "--tunelaunch-cache", str(tmp_path / "a")]) == 1

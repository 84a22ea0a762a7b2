"""Files of FlashInfer, which SGLang and vLLM keep too: read into the environment they were written in, or refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sharekit import FIELDS, OTHER_FIELDS, TID, key, publish, row, rows_at, table

from tunelaunch.cli.main import main
from tunelaunch.share.evidence import hidden_of
from tunelaunch.share.neighbours import read_flashinfer_directory
from tunelaunch.share.plainfile import flashinfer_file
from tunelaunch.share.stock import known_environments
from tunelaunch.store import Store

PREFIX = "flashinfer."


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a host that has started once: an environment is known, its one row is of no interest."""
    monkeypatch.delenv("TUNELAUNCH_REQUIRE_SIGNED", raising=False)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(tmp_path / "root"))
    publish(tmp_path / "root", [row(99)])
    return tmp_path / "root"


def metadata(fields: Mapping[str, Any] = FIELDS, **changes: Any) -> dict[str, Any]:
    return {name[len(PREFIX) :]: value for name, value in fields.items() if name.startswith(PREFIX)} | changes


def v1(path: Path, rows: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    meta = metadata() if meta is None else meta
    path.write_text(json.dumps({"_metadata": meta, "_records": {}, "_generation": "x", **rows}))
    return path


def taken(root: Path) -> dict[str, Any]:
    return {k: tactic for k, tactic in rows_at(root).items() if k != key(99)}


def refused(source: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["import", str(source)]) == 1
    return capsys.readouterr().err


def test_a_plain_file_is_read_and_its_rows_are_to_be_verified(tmp_path: Path, root: Path) -> None:
    rows = {key(1): ["MoERunner", 5], key(2): ["MoERunner", [[128, 16], True], ["cold_l2", "1"]]}
    assert main(["import", str(v1(tmp_path / "vllm" / "autotune.json", rows))]) == 0
    assert taken(root) == {key(1): 5, key(2): [[128, 16], True]}
    loaded = Store.open(root).load(TID).table
    assert loaded is not None
    new = [r for r in loaded.rows if r.key != key(99)]
    assert [r.evidence for r in new] == [{"unverified": True}] * 2
    assert {r.op for r in new} == {"trtllm::fused_moe::gemm1"}
    assert next(r for r in new if r.key == key(2)).value[2:] == [["cold_l2", "1"]]


def test_a_measured_local_row_stays(tmp_path: Path, root: Path) -> None:
    publish(root, [row(1, 7)])
    assert main(["import", str(v1(tmp_path / "f.json", {key(1): ["MoERunner", 5]}))]) == 0
    assert taken(root) == {key(1): 7}


@pytest.mark.parametrize("version", ["0.6.12", "0.6.14", "0.6.17"])
def test_files_whose_keys_have_no_scope_are_refused_with_that_reason(
    tmp_path: Path, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = metadata(flashinfer_version=version)
    said = refused(v1(tmp_path / "f.json", {key(1): ["MoERunner", 5]}, meta), capsys)
    assert f"FlashInfer {version}" in said
    assert "it has no scope" in said


def test_rows_that_say_too_little_are_left_out_one_by_one(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weak = "('trtllm::fused_moe::gemm1', 'MoERunner', ((1, 2), (0,)), ())"
    rows = {key(1): ["MoERunner", 5], weak: ["MoERunner", 5], key(2): ["MoERunner", -1], "odd": ["R", 1], key(3): 7}
    assert main(["import", str(v1(tmp_path / "f.json", rows))]) == 0
    said = capsys.readouterr().err
    assert all(reason in said for reason in ("no scope", "at default", "not one of FlashInfer's", "not a number"))
    assert taken(root) == {key(1): 5}


def test_another_environment_is_refused_with_the_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(v1(tmp_path / "f.json", {key(1): ["R", 5]}, metadata(OTHER_FIELDS)), capsys)
    assert "cudnn_version: saved 92000, current 92101" in said


def test_of_several_environments_the_one_that_fits_is_used(tmp_path: Path, root: Path) -> None:
    other = publish(root, [row(99)], OTHER_FIELDS)
    assert main(["import", str(v1(tmp_path / "f.json", {key(1): ["R", 5]}, metadata(OTHER_FIELDS)))]) == 0
    assert key(1) in rows_at(root, other)
    assert taken(root) == {}


def test_files_without_environment_and_hosts_without_one_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "does not say which FlashInfer" in refused(v1(tmp_path / "f.json", {key(1): ["R", 5]}, {}), capsys)
    (tmp_path / "g.json").write_text(json.dumps({key(1): ["R", 5]}))
    assert "no _metadata" in refused(tmp_path / "g.json", capsys)
    good = v1(tmp_path / "h.json", {key(1): ["R", 5]})
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(tmp_path / "fresh"))
    assert "start SGLang through tunelaunch once" in refused(good, capsys)
    assert not (tmp_path / "fresh").exists()


def test_the_last_start_makes_an_environment_known_without_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = tmp_path / "fresh"
    Store.open(fresh).write_report("L", {"environment": {"id": TID.environment, "fields": FIELDS}})
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(fresh))
    assert main(["import", str(v1(tmp_path / "f.json", {key(1): ["R", 5]}))]) == 0
    assert rows_at(fresh) == {key(1): 5}


def test_rank_files_of_sglang_are_one_table(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "sglang" / "flashinfer" / "autotune" / "0.7.2" / "sm120" / "0123456789abcdef"
    for rank in range(2):
        v1(folder / f"rank_tp{rank}_pp0_dp0.json", {key(1): ["MoERunner", 5 + rank], key(2): ["MoERunner", 6]})
    assert main(["import", str(tmp_path / "sglang")]) == 0
    assert taken(root) == {key(1): 5, key(2): 6}


def test_keys_that_carry_ranks_become_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {**FIELDS, "flashinfer.flashinfer_version": "0.7.1"}
    root = tmp_path / "ranks"
    tid = publish(root, [row(99)], fields)
    for rank in range(2):
        own = key(1).replace("(torch", f"({rank}, torch")
        v1(tmp_path / "s" / f"rank_tp{rank}_pp0_dp0.json", {own: ["R", 5], key(2): ["R", 6]}, metadata(fields))
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(root))
    assert main(["import", str(tmp_path / "s")]) == 0
    loaded = Store.open(root).load(tid).table
    assert loaded is not None
    groups = sorted((r.set["size"], r.set["index"]) for r in loaded.rows if r.set)
    assert groups == [(2, 0), (2, 1)]
    assert sum(1 for r in loaded.rows if not r.set) == 2


def test_a_store_of_single_entries_is_read(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "fi" / "v2" / "0123456789abcdef"
    (folder / "entries").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({**metadata(), "cache_schema": "v2", "measure_timer": "x"}))
    for number, entry in enumerate(
        (
            {"key": key(1), "runner": "R", "tactic": 5},
            {"key": key(2), "runner": "R", "tactic": [1], "profiling_policy": ["a"]},
        )
    ):
        name = hashlib.sha256(key(number + 1).encode()).hexdigest()[:24]
        (folder / "entries" / f"{name}.json").write_text(json.dumps(entry))
    (folder / "entries" / f"{'0' * 24}.json").write_text(json.dumps({"key": key(3), "runner": "R", "tactic": 1}))
    (folder / "entries" / f"{'1' * 24}.json").write_text("")
    assert main(["import", str(tmp_path / "fi")]) == 0
    assert taken(root) == {key(1): 5, key(2): [1]}
    assert "does not lie where its key belongs" in capsys.readouterr().err


def test_links_in_a_directory_are_not_followed(tmp_path: Path, root: Path) -> None:
    real = v1(tmp_path / "outside.json", {key(1): ["R", 5]})
    v1(tmp_path / "d" / "x.json", {key(2): ["R", 5]})
    (tmp_path / "d" / "link.json").symlink_to(real)
    (tmp_path / "d" / "loop").symlink_to(tmp_path / "d")
    found = read_flashinfer_directory(tmp_path / "d", known_environments([root]))
    assert [set(rows) for rows in found.rows.values()] == [{key(2)}]


# The other way


def test_a_plain_file_holds_the_rows_that_their_key_alone_explains() -> None:
    entry = {"key": key(4), "scope": None, "runner": "MoERunner", "tactic": 14}
    rows = [
        row(1, [[128, 16], True]),
        row(2, -1),
        row(3, scope="9b0d4e2f61aa"),
        row(4),
        row(5, evidence={"unverified": True}),
        row(6, set={"id": "a", "size": 1, "index": 0}),
    ]
    data, left = flashinfer_file(table(rows, quarantine=(entry,)))
    value = json.loads(data)
    assert value.pop("_metadata") == metadata()
    assert value == {key(1): ["MoERunner", [[128, 16], True]], key(2): ["MoERunner", -1]}
    assert sorted(left.values()) == [1, 1, 1, 1]
    assert hidden_of([entry])


def test_without_a_row_nothing_is_written(tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.open(root).publish(TID, [row(99, scope="9b0d4e2f61aa")], environment=FIELDS, remove=[(key(99), None)])
    assert main(["export", str(tmp_path / "x.json"), "--as", "flashinfer"]) == 1
    assert "they have a scope" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_what_is_exported_can_be_imported_again(tmp_path: Path, root: Path) -> None:
    publish(root, [row(1, 5)])
    assert main(["export", str(tmp_path / "x.json"), "--as", "flashinfer"]) == 0
    assert main(["import", str(tmp_path / "x.json"), "--dry-run"]) == 0

"""Receipts on disk, the report put together from them, and its summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunelaunch.device.recorded import recorded
from tunelaunch.report.model import assemble
from tunelaunch.report.receipts import read_receipts, receipt_path, write_receipt
from tunelaunch.report.summary import MAX_LINES, summary_lines

PRO = recorded(Path(__file__).parents[2] / "data" / "devices.json", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")


def row(key: str, state: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "scope": None, "state": state, **more}


def op(name: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    counts = {word: sum(1 for r in rows if r["state"] == word) for word in ("loaded", "tuned", "default", "failed")}
    return {"op": name, **counts, "rows": list(rows), **more}


def one_pass(*ops: dict[str, Any], name: str = "target", profiles: int = 4, seconds: float = 2.5) -> dict[str, Any]:
    return {"name": name, "seconds": seconds, "profiles": profiles, "ops": list(ops)}


def receipt(rank: int, *passes: dict[str, Any], world: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "schema": "tunelaunch/receipt/1",
        "rank": rank,
        "world": world,
        "leader": rank == 0,
        "pid": 1000 + rank,
        "state": "active",
        "device": PRO.to_json(),
        "environment": {"id": "0123456789ab", "fields": {"gpu_name": PRO.name}, "indeterminate": []},
        "passes": list(passes),
        "table": {"path": "/root/table.json", "generation": 3, "published": 2},
        "fallbacks": [],
        "problems": [],
        "traceback": None,
        **more,
    }


TUNED = one_pass(op("moe::gemm1", row("a", "tuned", gain_percent=12.5), row("b", "default", gain_percent=0.0)))


def test_the_summary_of_a_good_start() -> None:
    lines = summary_lines(assemble([receipt(0, TUNED), receipt(1, TUNED)], "L"))
    assert lines == [
        f"{PRO.name}, SM120 (Blackwell RTX), 188 SMs; environment 0123456789ab",
        "rows: 0 loaded, 1 tuned, 1 default, 0 failed; 8 profiles run, 2.5 s tuning",
        "table: /root/table.json, generation 3, 2 rows published",
        "moe::gemm1: 0/1/1/0 loaded/tuned/default/failed, largest gain 12.5 %",
    ]


def test_a_row_that_a_later_pass_loads_again_is_counted_once() -> None:
    again = one_pass(op("moe::gemm1", row("a", "loaded", gain_percent=12.5), row("c", "failed")), name="extend")
    report = assemble([receipt(0, TUNED, again)], "L")
    assert report["totals"] == {"loaded": 0, "tuned": 1, "default": 1, "failed": 1, "missed": 0}
    assert [r["state"] for r in report["ops"][0]["rows"]] == ["tuned", "default", "failed"]


def test_counts_without_rows_are_added() -> None:
    bare = one_pass({"op": "x", "loaded": 2, "tuned": 1, "missed": 4, "rows": []})
    report = assemble([receipt(0, bare, bare)], "L")
    assert report["totals"] == {"loaded": 4, "tuned": 2, "default": 0, "failed": 0, "missed": 8}


def test_a_recorded_gain_is_not_passed_off_as_measured() -> None:
    warm = one_pass(op("x", row("a", "loaded", gain_percent=9.0, recorded="2026-01-01T00:00:00Z")), profiles=0)
    report = assemble([receipt(0, warm, world=1)], "L")
    assert (report["ops"][0]["gain_percent"], report["ops"][0]["recorded_gain_percent"]) == (None, 9.0)
    assert "recorded when tuned" in summary_lines(report)[-1]


def test_ranks_without_a_receipt_are_named() -> None:
    report = assemble([receipt(0, TUNED, world=4), receipt(2, TUNED, world=4)], "L")
    assert report["missing_ranks"] == [1, 3]
    assert "ranks without a receipt: 1, 3 (of 4); nothing is known of them" in summary_lines(report)
    assert assemble([], "L", 2)["missing_ranks"] == [0, 1]


def test_ranks_that_differ_from_the_leader_are_named() -> None:
    other = one_pass(op("moe::gemm1", row("a", "tuned"), row("b", "tuned")))
    report = assemble([receipt(0, TUNED), receipt(1, other)], "L")
    assert report["unequal_ranks"] == [1]
    assert any("differ from the leader's: 1" in line for line in summary_lines(report))


def test_rows_are_those_of_the_leader_whatever_its_rank() -> None:
    receipts = [receipt(0, leader=False, state="aside"), receipt(1, TUNED, leader=True)]
    report = assemble(receipts, "L")
    assert (report["leader"], report["totals"]["tuned"]) == (1, 1)
    assert any("aside: 0" in line for line in summary_lines(report))


def test_each_fallback_is_said_once_with_the_ranks_that_had_it() -> None:
    receipts = [receipt(r, TUNED, fallbacks=["all have it"] + (["only\none has it"] if r else [])) for r in range(2)]
    report = assemble(receipts, "L")
    assert report["fallbacks"] == ["all have it", "only\none has it (rank 1)"]
    lines = summary_lines(report)
    assert "fallback: all have it" in lines
    assert "fallback: only one has it (rank 1)" in lines


def test_an_unproven_environment_says_what_is_unknown() -> None:
    environment = {"id": "0123456789ab", "fields": {}, "indeterminate": ["flashinfer.cudnn_version"]}
    (line, *_) = summary_lines(assemble([receipt(0, TUNED, environment=environment)], "L"))
    assert line.endswith("environment 0123456789ab (unproven: flashinfer.cudnn_version unknown)")


def test_a_long_report_is_cut_to_a_dozen_lines_and_says_so() -> None:
    many = one_pass(*(op(f"op{n:02}", row("a", "tuned")) for n in range(30)))
    lines = summary_lines(assemble([receipt(0, many, world=1, fallbacks=[f"f{n}" for n in range(20)])], "L"))
    assert len(lines) <= MAX_LINES
    assert any("more fallbacks" in line for line in lines)
    assert "more ops" in lines[-1]


def test_several_leaders_make_one_report() -> None:
    first, second = receipt(0, TUNED), receipt(1, one_pass(op("other", row("z", "loaded"))), leader=True)
    report = assemble([first, second], "L")
    assert [o["op"] for o in report["ops"]] == ["moe::gemm1", "other"]
    assert report["unequal_ranks"] == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = [*receipt(0), "ops", "rows", "op", "loaded", "key"]


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), anything), max_size=4))
def test_no_receipt_makes_a_report_fail(receipts: list[dict[str, Any]]) -> None:
    report = assemble(receipts, "L")
    assert len(summary_lines(report)) <= MAX_LINES
    json.dumps(report)


@given(st.dictionaries(st.sampled_from([*NAMES, "totals", "states", "unproven", "missing_ranks"]), anything))
def test_no_report_makes_a_summary_fail(report: dict[str, Any]) -> None:
    assert summary_lines(report)


def test_receipts_come_back_by_rank(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        write_receipt(tmp_path, receipt(rank))
    write_receipt(tmp_path, receipt(2, state="failed"))
    assert [(r["rank"], r["state"]) for r in read_receipts(tmp_path)] == [(0, "active"), (2, "failed"), (10, "active")]
    assert sorted(p.name for p in (tmp_path / "receipts").iterdir()) == ["rank-0.json", "rank-10.json", "rank-2.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "\xff", "[" * 100_000])
def test_a_damaged_receipt_is_a_failed_rank_with_the_reason(tmp_path: Path, content: str) -> None:
    write_receipt(tmp_path, receipt(0, TUNED))
    receipt_path(tmp_path, 1).write_bytes(content.encode("latin-1"))
    report = assemble(read_receipts(tmp_path), "L")
    assert report["states"] == {"active": [0], "failed": [1]}
    assert any("rank-1.json cannot be read" in problem for problem in report["problems"])


def test_a_process_without_a_rank_is_counted_until_it_has_one(tmp_path: Path) -> None:
    write_receipt(tmp_path, {**receipt(0), "rank": None, "state": "standby"})
    assert assemble(read_receipts(tmp_path), "L")["unranked"] == 1
    write_receipt(tmp_path, receipt(0))
    assert assemble(read_receipts(tmp_path), "L")["unranked"] == 0


def test_a_receipt_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = write_receipt(tmp_path, receipt(0))
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_receipt(tmp_path, receipt(0, problems=[object()]))
    with pytest.raises(ValueError, match="global rank"):
        write_receipt(tmp_path, receipt(-1))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_no_receipts_is_an_empty_list(tmp_path: Path) -> None:
    assert read_receipts(tmp_path / "none") == []


def test_a_start_without_a_tuning_pass_is_plain_sglang_and_says_why() -> None:
    said = {"rank": 0, "world": 1, "leader": True, "state": "standby", "passes": [], "nothing": "the device is cpu"}
    lines = summary_lines(assemble([said], "launch", None))
    assert lines[0] == "this is plain SGLang, no tuning pass was run: the device is cpu"
    assert not any("rows:" in line for line in lines)

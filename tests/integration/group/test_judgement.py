"""Tactics that lose, or compute wrong numbers, inside the layer; and lookups that stay in their own bucket."""

from __future__ import annotations

import json

import pytest

OP = "tunelaunch_cpu::fused_moe::gemm1"


def _fast(tmp_path, tactic):
    """Timings in which ``tactic`` wins every profile of stage 1 by far."""
    path = tmp_path / "times.json"
    path.write_text(json.dumps({OP: {str(t): {"*": 0.01 if t == tactic else 5.0} for t in (-1, 0, 1, 2, 3)}}))
    return {"TUNELAUNCH_CPU_HOST_TIMES": str(path)}


def _stage1(start):
    """Rows of stage 1 in the leader's receipt."""
    return [row for op in start.ranks[0]["receipt"]["passes"][0]["ops"] if op["op"] == OP for row in op["rows"]]


@pytest.mark.parametrize("how", ["nan", "nan24", "scale", "tail"])
def test_a_tactic_with_wrong_numbers_is_replaced_and_hidden_on_all_ranks(nest, tmp_path, how):
    env = _fast(tmp_path, 1) | {"TUNELAUNCH_CPU_HOST_BROKEN": f"{OP}=1:{how}", "TUNELAUNCH_MIN_GAIN": "-900"}
    start = nest.start(tmp_path, name="cold", env=env, serve=[1, 24, 33, 64])
    assert start.served(), start.ranks
    assert start.rows()[0] == start.rows()[1]
    for rank in start.ranks:
        assert all(one["error"] != "nan" and one["error"] < 0.02 for one in rank["served"].values()), rank["served"]
    assert any("quarantined" in line for line in start.fallbacks())
    (quarantine,) = (tmp_path / "root").glob("v1/*/*/quarantine.json")
    assert {entry["tactic"] for entry in json.loads(quarantine.read_text())["entries"]} == {1}
    # Hidden even where it is cached.
    (table,) = (tmp_path / "root").glob("v1/*/*/table.json")
    body = json.loads(table.read_text())
    for row in body["rows"]:
        if row["op"] == OP:
            row["value"][1] = 1
    table.write_text(json.dumps(body))
    warm = nest.start(tmp_path, name="warm", env=env, serve=[1, 24, 33, 64])
    assert warm.served(), warm.ranks
    assert all(one["error"] != "nan" and one["error"] < 0.02 for r in warm.ranks for one in r["served"].values())


def test_a_wrong_default_is_not_blamed_on_tuning(nest, tmp_path):
    env = _fast(tmp_path, 1) | {"TUNELAUNCH_CPU_HOST_BROKEN": f"{OP}=-1:nan", "TUNELAUNCH_MIN_GAIN": "-900"}
    start = nest.start(tmp_path, env=env)
    assert start.served(), start.ranks
    assert not list((tmp_path / "root").glob("v1/*/*/quarantine.json"))
    assert not any("quarantined" in line for line in start.fallbacks())


def test_a_tactic_that_wins_its_profile_and_loses_in_the_layer_is_not_installed(nest, tmp_path):
    env = _fast(tmp_path, 1) | {"TUNELAUNCH_CPU_HOST_BROKEN": f"{OP}=1:slow"}
    cold = nest.start(tmp_path, name="cold", env=env)
    assert cold.served(), cold.ranks
    assert 1 not in {row.get("tactic") for row in _stage1(cold)}
    assert all(row["us"] is not None and row["default_us"] is not None for row in _stage1(cold))
    warm = nest.start(tmp_path, name="warm", env=env)
    assert warm.profiles() == [0, 0]
    assert warm.rows() == cold.rows()


def test_lookups_stay_in_their_own_bucket_after_the_pass_and_after_smaller_calls(nest, tmp_path):
    for keys in ("strong", "weak"):
        start = nest.start(tmp_path, name=keys, env={"TUNELAUNCH_CPU_HOST_KEYS": keys}, serve=[33, 1, 64])
        for rank in start.ranks:
            assert rank["buckets"] == {"1": 1, "24": 32, "33": 64, "64": 64, "100": 64, "8000": 64}
            assert rank["buckets_after_refine"] == rank["buckets"]

"""Starts of a group of ranks, one after another: what is profiled, what is reused, and that all ranks are alike."""

from __future__ import annotations

import json
import shutil

LEADER, FOLLOWER = 0, 1


def _table(root):
    (table,) = root.glob("v1/*/*/table.json")
    return table


def _equal_rows(start):
    assert start.served(), start.ranks
    assert all(rows == start.rows()[0] for rows in start.rows())
    return start.rows()[0]


def test_second_start_profiles_nothing_whatever_the_path_of_the_model(nest, tmp_path):
    cold = nest.start(tmp_path, name="cold", model_path="org/model")
    assert min(cold.profiles()) > 0
    assert cold.ranks[0]["group_before_its_world"] is False
    kept = _equal_rows(cold)
    for name, path in (("warm", "org/model"), ("moved", "/models/current")):
        warm = nest.start(tmp_path, name=name, model_path=path)
        assert warm.profiles() == [0, 0]
        assert _equal_rows(warm) == kept
        assert warm.states() == {"loaded"}


def test_eight_ranks_tune_once_and_reuse_it_from_the_leader_alone(nest, tmp_path):
    cold = nest.start(tmp_path, world=8, name="cold")
    kept = _equal_rows(cold)
    assert len(set(cold.profiles())) == 1
    elsewhere = {rank: {"env": {"TUNELAUNCH_CACHE_DIR": str(tmp_path / f"own-{rank}")}} for rank in range(1, 8)}
    warm = nest.start(tmp_path, world=8, name="warm", each=elsewhere)
    assert warm.profiles() == [0] * 8
    assert _equal_rows(warm) == kept
    assert not any((tmp_path / f"own-{rank}").exists() for rank in range(1, 8))


def test_a_rank_on_another_host_with_empty_directories_of_its_own_is_fed_by_the_leader(nest, tmp_path):
    kept = _equal_rows(nest.start(tmp_path, name="cold"))
    own = {"TUNELAUNCH_CACHE_DIR": str(tmp_path / "none"), "TUNELAUNCH_RUN_DIR": str(tmp_path / "other-host" / "run")}
    warm = nest.start(tmp_path, name="warm", each={FOLLOWER: {"env": own}}, passes=[8, 8])
    assert warm.profiles() == [0, 0]
    assert _equal_rows(warm) == kept
    assert warm.ranks[FOLLOWER]["receipt"]["state"] == "active"


def test_a_followers_own_older_table_is_ignored(nest, tmp_path):
    kept = _equal_rows(nest.start(tmp_path, name="cold"))
    own = tmp_path / "own"
    shutil.copytree(tmp_path / "root", own)
    body = json.loads(_table(own).read_text())
    for row in body["rows"]:
        row["value"][1] = -1
    _table(own).write_text(json.dumps(body))
    warm = nest.start(tmp_path, name="warm", each={FOLLOWER: {"env": {"TUNELAUNCH_CACHE_DIR": str(own)}}})
    assert warm.profiles() == [0, 0]
    assert _equal_rows(warm) == kept


def test_a_table_of_another_environment_is_neither_used_nor_changed(nest, tmp_path):
    nest.start(tmp_path, name="before", metadata={"cudnn_version": "90000"})
    table = _table(tmp_path / "root")
    before = table.read_bytes()
    start = nest.start(tmp_path, name="after")
    assert min(start.profiles()) > 0
    _equal_rows(start)
    assert table.read_bytes() == before
    assert len(list((tmp_path / "root").glob("v1/*/*/table.json"))) == 2


def test_retune_profiles_everything_again_on_every_rank(nest, tmp_path):
    cold = nest.start(tmp_path, name="cold")
    again = nest.start(tmp_path, name="again", env={"TUNELAUNCH_RETUNE": "1"})
    assert again.profiles() == cold.profiles()
    _equal_rows(again)
    assert nest.start(tmp_path, name="warm").profiles() == [0, 0]


def test_a_second_pass_in_one_process_profiles_only_what_is_new(nest, tmp_path):
    start = nest.start(tmp_path, passes=[8, 8])
    assert [one["profiles"] for one in start.ranks[0]["passes"]][1] == 0
    assert start.ranks[0]["passes"][0]["rows"] == start.ranks[1]["passes"][1]["rows"]


def test_a_slow_rank_is_waited_for(nest, tmp_path):
    slow = {"at": "tunelaunch.ranks.session:Session.meet", "how": "wait", "value": 1.5}
    start = nest.start(tmp_path, each={FOLLOWER: {"faults": [slow]}})
    _equal_rows(start)
    assert start.ranks[LEADER]["receipt"]["state"] == "active"


def test_a_rank_with_another_library_version_makes_the_group_stand_aside(nest, tmp_path):
    start = nest.start(tmp_path, each={FOLLOWER: {"metadata": {"cudnn_version": "92101"}}})
    assert start.served()
    for rank in (LEADER, FOLLOWER):
        assert start.ranks[rank]["receipt"]["state"] == "aside"
        assert "flashinfer.cudnn_version: '92101'" in start.fallbacks(rank)[0]


def test_without_the_plugin_on_one_rank_the_others_stand_aside_in_the_time_of_a_rendezvous(nest, tmp_path):
    for rank in (LEADER, FOLLOWER):
        start = nest.start(tmp_path, name=f"missing-{rank}", each={rank: {"plugin": False}}, seconds=40)
        assert start.served(), start.ranks
        assert start.ranks[rank]["receipt"] is None
        assert start.ranks[1 - rank]["receipt"]["state"] == "aside"
        assert start.ranks[1 - rank]["passes"][0]["seconds"] < 15  # the rendezvous has 3 s here


def test_a_rank_killed_while_tuning_ends_the_others_with_an_error_in_seconds(nest, tmp_path):
    fault = {"at": "tunelaunch.demo.fake_cuda:_planted", "how": "kill", "nth": 5}
    start = nest.start(tmp_path, each={FOLLOWER: {"faults": [fault]}}, seconds=40)
    assert start.exits == [0, -9]
    assert "Connection" in start.ranks[LEADER]["outcome"]
    assert start.ranks[LEADER]["seconds"] < 20


def test_keys_that_carry_ranks_are_reused_as_whole_sets(nest, tmp_path):
    cold = nest.start(tmp_path, name="cold", keys="ranks")
    assert cold.served()
    for name in ("second", "third"):
        warm = nest.start(tmp_path, name=name, keys="ranks")
        assert warm.served()
        assert warm.profiles() == [0, 0]
        assert warm.tactics()[0] == warm.tactics()[1] == cold.tactics()[0]
        assert "caches disagree" not in "".join(warm.logs)


def test_rows_for_seven_of_eight_ranks_are_not_used_by_anyone(nest, tmp_path):
    cold = nest.start(tmp_path, world=8, name="cold", keys="ranks")
    assert cold.served()
    table = _table(tmp_path / "root")
    body = json.loads(table.read_text())
    whole = len(body["rows"])
    body["rows"] = [row for row in body["rows"] if row["set"]["index"] != 7]
    assert len(body["rows"]) == whole * 7 // 8
    table.write_text(json.dumps(body))
    start = nest.start(tmp_path, world=8, name="again", keys="ranks")
    assert start.profiles() == cold.profiles()
    assert start.served()

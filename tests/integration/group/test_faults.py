"""A fault in each of our functions, on the leader and on a follower: all ranks serve, with equal rows, and nobody waits.

Each fault is an exception from one function, on one rank only. Plain SGLang would have served, so every rank has to. What
FlashInfer holds afterwards must be equal on all ranks, since ranks that run other kernels than their peers can differ in
speed and, summed up over ranks, in numbers.
"""

from __future__ import annotations

import pytest

POINTS = (
    "tunelaunch.ranks.session:Session.identify",
    "tunelaunch.ranks.session:Session.meet",
    "tunelaunch.ranks.session:Session.read",
    "tunelaunch.ranks.session:Session.take",
    "tunelaunch.ranks.feed:Feeder.entry_file",
    "tunelaunch.ranks.feed:Feeder.activate",
    "tunelaunch.ranks.feed:Feeder.install",
    "tunelaunch.ranks.passes:Watch.__init__",
    "tunelaunch.ranks.passes:harvest",
    "tunelaunch.ranks.passes:rows_of",
    "tunelaunch.ranks.passes:describe",
    "tunelaunch.ranks.settle:plan",
    "tunelaunch.ranks.trial:sample",
    "tunelaunch.ranks.numbers:check",
    "tunelaunch.ranks.session:Session.stamp",
    "tunelaunch.ranks.session:Session.conditions",
    "tunelaunch.ranks.session:write_receipt",
    "tunelaunch.store:Store.load",
    "tunelaunch.store:Store.publish",
    "tunelaunch.hosts.watch:Watch.enter_call",
    "tunelaunch.hosts.watch:Watch.leave_call",
    "tunelaunch.hosts.watch:Watch.timed",
    "tunelaunch.hosts.layers:Capture.owner",
)
LIMIT = 25.0


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("where", ["alone", "leader", "follower"])
def test_all_ranks_serve_with_equal_rows_when_one_raises_in(nest, tmp_path, point, where):
    rank = 1 if where == "follower" else 0
    fault = {"at": point, "how": "raise"}
    start = nest.start(tmp_path, world=1 if where == "alone" else 2, each={rank: {"faults": [fault]}}, seconds=LIMIT)
    assert start.served(), start.ranks
    assert all(rows == start.rows()[0] for rows in start.rows())
    assert all(served["error"] < 0.02 for one in start.ranks for served in one["served"].values())


@pytest.mark.parametrize("nth", [2, 3, 4])
def test_all_ranks_serve_with_equal_rows_when_a_later_call_cannot_be_fed_on_one(nest, tmp_path, nth):
    two_scopes = {"layers": [{"top_k": 2}, {"top_k": 3}], "env": {"TUNELAUNCH_CPU_HOST_KEYS": "weak"}}
    assert nest.start(tmp_path, name="cold", **two_scopes).served()
    fault = {"at": "tunelaunch.ranks.feed:Feeder.activate", "how": "raise", "nth": nth}
    start = nest.start(tmp_path, name="warm", each={1: {"faults": [fault]}}, seconds=LIMIT, **two_scopes)
    assert start.served(), start.ranks
    assert start.rows()[0] == start.rows()[1]
    assert start.tactics()[0] == start.tactics()[1]
    assert any("Feeder.activate" in line for line in start.fallbacks(1))

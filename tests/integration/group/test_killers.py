"""A tactic whose probe ends the process: the next start skips it, says so, and serves."""

from __future__ import annotations

import json

OP = "tunelaunch_cpu::fused_moe::gemm1"


def test_three_killers_in_a_row_end_in_a_start_that_serves(nest, tmp_path):
    env = {"TUNELAUNCH_CPU_HOST_BROKEN": ",".join(f"{OP}={tactic}:kill" for tactic in (1, 2, 3))}
    killed = 0
    for number in range(5):
        start = nest.start(tmp_path, name=f"start{number}", world=1, env=env)
        if start.ranks[0] is not None:
            break
        killed += 1
        (quarantine,) = [*(tmp_path / "root").glob("v1/*/*/quarantine.json")] or [None]
        known = json.loads(quarantine.read_text())["entries"] if quarantine else []
        assert len(known) == number, "each start skips what killed the one before"
    assert start.served(), start.ranks
    assert killed == 3
    entries = json.loads(quarantine.read_text())["entries"]
    assert {entry["why"] for entry in entries} == {"its process ended while it was tried"}
    assert all(entry["expires"] for entry in entries)
    assert any("skipped until" in line for line in start.fallbacks())
    warm = nest.start(tmp_path, name="warm", world=1, env=env)
    assert warm.profiles() == [0]
    assert list((tmp_path / "root").glob("v1/*/*/journal/*")) == []

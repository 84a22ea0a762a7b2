"""The layer through FlashInfer's real AutoTuner, each case in a process of its own (the fakes change torch.cuda)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("flashinfer")

GEMM1, GEMM2 = "tunelaunch_cpu::fused_moe::gemm1", "tunelaunch_cpu::fused_moe::gemm2"

SCRIPT = """
import json, sys, torch
from tunelaunch.demo import fake_cuda
fake_cuda.install()
from flashinfer.autotuner import AutoTuner, autotune
from tunelaunch.demo.counts import LEDGER
from tunelaunch.demo.moe_runner import fused_moe, runner_class

def call(tokens):
    draw = torch.Generator().manual_seed(tokens)
    x = torch.randn(tokens, 32, generator=draw).bfloat16()
    w13 = (torch.randn(4, 32, 32, generator=draw) / 6).bfloat16()
    w2 = (torch.randn(4, 32, 16, generator=draw) / 4).bfloat16()
    ids = torch.rand(tokens, 4, generator=draw).topk(2, dim=1).indices.int()
    return fused_moe(x, w13, w2, ids, torch.rand(tokens, 2, generator=draw))

with autotune(True):
    call(16)
LEDGER.end_of_pass(rank=0)
profiles = LEDGER.profiles
with autotune(True):
    call(16)
AutoTuner.get().save_configs(sys.argv[1])
outs = {n: bool(call(n).isnan().any()) for n in (16, 8, 16, 32)}
LEDGER.flush()
cap = runner_class().tuning_config.dynamic_tensor_specs[0].map_to_tuning_buckets(1 << 20)
print(json.dumps({"profiles": profiles, "again": LEDGER.profiles - profiles, "nan": outs, "cap": cap}))
"""


def _run(tmp_path, **variables):
    counts = tmp_path / "counts"
    counts.mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith("TUNELAUNCH_")}
    env |= {f"TUNELAUNCH_CPU_HOST_{name}": value for name, value in variables.items()}
    env |= {"TUNELAUNCH_CPU_HOST_COUNTS": str(counts), "FLASHINFER_WORKSPACE_BASE": str(tmp_path)}
    saved = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(saved)], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    rows = {key: value for key, value in json.loads(saved.read_text()).items() if key.startswith("(")}
    return result, rows, counts


def test_planted_times_decide_the_tactic_that_serves_and_the_counts_prove_it(tmp_path):
    times = tmp_path / "times.json"
    plan = {str(tactic): {"*": 5.0, "8": 9.0} for tactic in (-1, 0, 1, 2, 3)}
    plan["2"] = {"*": 1.0}
    plan["1"] = {"*": 4.0, "8": 0.5}
    times.write_text(json.dumps({GEMM1: plan}))
    result, rows, counts = _run(tmp_path, TIMES=str(times))
    assert result["profiles"] >= 5 * 8
    assert result["again"] == 0
    won = {key: value[1] for key, value in rows.items() if GEMM1 in key}
    assert {tactic for key, tactic in won.items() if "((8, 32)" in key} == {1}
    assert {tactic for key, tactic in won.items() if "((8, 32)" not in key} == {2}
    [served] = [json.loads(path.read_text())["serving"] for path in counts.glob("*.tactics.json")]
    # The second call of 16 tokens comes after 8 capped the buckets: it takes the row of 8, as upstream's does.
    assert served[GEMM1]["2"] == {"16": 1}
    assert served[GEMM1]["1"] == {"8": 1, "16": 1}
    [counted] = [json.loads(p.read_text()) for p in counts.glob("*.json") if ".tactics." not in p.name]
    assert counted["profiles"] == result["profiles"]


def test_a_broken_tactic_spoils_only_what_it_was_told_to(tmp_path):
    times = tmp_path / "times.json"
    times.write_text(json.dumps({GEMM2: {"5": {"*": 1e-6}}}))
    result, rows, _ = _run(tmp_path, TIMES=str(times), BROKEN=f"{GEMM2}=5:nan,{GEMM1}=3:raise")
    assert {value[1] for key, value in rows.items() if GEMM2 in key} == {5}
    assert 3 not in {value[1] for key, value in rows.items() if GEMM1 in key}
    # No row covers 32 tokens: the default answers there, and it is not broken.
    assert result["nan"] == {"16": True, "8": True, "32": False}


def test_weak_keys_say_shapes_only_and_the_last_new_size_caps_the_buckets(tmp_path):
    result, rows, _ = _run(tmp_path, KEYS="weak")
    assert rows
    assert all(key.endswith(", ())") for key in rows)
    assert result["cap"] == 32

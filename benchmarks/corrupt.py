"""A measuring plugin that makes chosen tactics of FlashInfer's CUTLASS MoE compute wrong numbers, to see them caught.

``write_plugin(folder)`` makes a folder for PYTHONPATH. ``TL_CORRUPT`` lists ``tactic:how``: ``nan`` (not a number at 16
tokens), ``wrong24`` (garbage in one row above 16 tokens), ``tail`` (the last row is not written), ``scale`` (off by 30 %). Only
``run_moe``, which serves and which the trial runs, is changed; the kernel alone, which FlashInfer profiles, is not.
"""

from __future__ import annotations

from pathlib import Path

_PLUGIN = """
import os

PLAN = dict(item.split(":") for item in os.environ.get("TL_CORRUPT", "").split(",") if item)

class Corrupt:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def run_moe(self, *args):
        output, tokens = args[0], args[1].shape[0]
        tactics = [a for a in args if isinstance(a, (list, tuple)) and len(a) == 2 and all(isinstance(t, int) for t in a)][-1]
        hows = {PLAN[str(t)] for t in tactics if str(t) in PLAN}
        kept = output[-1].clone() if "tail" in hows else None
        result = self._inner.run_moe(*args)
        if "nan" in hows and tokens == 16:
            output[0].fill_(float("nan"))
        if "wrong24" in hows and tokens > 16:
            output[-1].fill_(3.0)
        if "tail" in hows:
            output[-1].copy_(kept)
        if "scale" in hows:
            output.mul_(1.3)
        return result

def register():
    if not PLAN:
        return
    from flashinfer.autotuner import AutoTuner
    choose = AutoTuner.choose_one

    def choose_one(self, custom_op, runners, *a, **k):
        for runner in runners:
            inner = getattr(runner, "fused_moe_runner", None)
            if inner is not None and not isinstance(inner, Corrupt):
                runner.fused_moe_runner = Corrupt(inner)
                known = type(runner).runner_dict
                for key, value in list(known.items()):
                    if value is inner:
                        known[key] = runner.fused_moe_runner
        return choose(self, custom_op, runners, *a, **k)

    AutoTuner.choose_one = choose_one
"""


def write_plugin(folder: Path) -> Path:
    """Make ``folder`` a PYTHONPATH entry with the plugin; returns it."""
    info = folder / "tl_corrupt-0.1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tl-corrupt\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nab_tl_corrupt = tl_corrupt:register\n")
    (folder / "tl_corrupt.py").write_text(_PLUGIN)
    return folder

"""One rank of the harness: SGLang's scheduler reduced to its autotune passes, in a process forked from the nest.

Real: torch's gloo world, the host's groups (see ``worlds``), its ``flashinfer_autotune.py``, its HookRegistry, FlashInfer
and tunelaunch's plugin. Stand-ins: the model and its runner (:mod:`support.standins`), the GPU (``fake_cuda``). The result
is a JSON file: outcome, profiles counted here at ``_profile_single_kernel``, FlashInfer's rows, the receipt.
"""

from __future__ import annotations

import json
import math
import os
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support import faults


def main(spec: dict[str, Any], world: Any) -> None:
    """Run the rank that ``spec`` describes and leave ``spec["result"]``. ``world`` is a module of ``support.worlds``."""
    for name, value in spec.get("env", {}).items():
        os.environ[name] = value
    result: dict[str, Any] = {"rank": spec["rank"], "outcome": "served", "passes": [], "started": time.time()}
    begun = time.monotonic()
    try:
        args = SimpleNamespace(tp_size=spec["world"], pp_size=1, dp_size=1, enable_dp_attention=False)
        run_scheduler_process(args, spec["rank"], 0, 0, spec, world, result)
    except BaseException as error:
        result["outcome"] = f"{type(error).__name__}: {str(error)[:300]}"
        result["traceback"] = traceback.format_exc()
    result["seconds"] = round(time.monotonic() - begun, 3)
    path = Path(spec["result"])
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(result), encoding="utf-8")
    temporary.replace(path)


def run_scheduler_process(
    server_args: Any, tp_rank: int, pp_rank: int, dp_rank: int, spec: dict[str, Any], world: Any, result: dict[str, Any]
) -> None:
    """Named as SGLang's entry function, by which tunelaunch knows a scheduler and reads its place."""
    import torch
    from flashinfer.autotuner import AutoTuner

    from support.standins import stand_in_model_runner, use_rank_keys
    from tunelaunch.demo import fake_cuda

    torch.set_num_threads(1)
    fake_cuda.install()
    counted = _count_profiles(AutoTuner)
    if spec.get("keys") == "ranks":
        use_rank_keys(tp_rank)
    if spec.get("metadata"):
        faults.change_metadata(spec["metadata"])
    if spec.get("plugin", True):
        from tunelaunch.ranks import plugin

        for fault in spec.get("faults", ()):
            faults.plant(fault)
        plugin.register()
        world.apply_hooks()
    from tunelaunch.hosts import sglang as host

    result["group_before_its_world"] = host.tp_group() is not None
    runner = stand_in_model_runner(spec, world.connect(spec))
    for number, tokens in enumerate(spec.get("passes", [8])):
        one: dict[str, Any] = {"tokens": tokens}
        result["passes"].append(one)
        before, begun = counted["profiles"], time.monotonic()
        try:
            world.autotune(runner, lambda tokens=tokens: runner.model(tokens))
        finally:
            one |= {"profiles": counted["profiles"] - before, "seconds": round(time.monotonic() - begun, 3)}
            one["rows"] = _rows(AutoTuner, Path(spec["result"]).with_suffix(f".{number}.rows"))
    _serve(runner.model, spec, result)
    result["receipt"] = _receipt(spec)
    _probe_lookups(spec, result)


def _count_profiles(tuner: Any) -> dict[str, int]:
    """A count of its own at the place where FlashInfer times one tactic."""
    counted, original = {"profiles": 0}, tuner._profile_single_kernel

    def profile(self: Any, *args: Any, **kwargs: Any) -> float:
        counted["profiles"] += 1
        return original(self, *args, **kwargs)

    tuner._profile_single_kernel = profile
    return counted


def _rows(tuner: Any, path: Path) -> dict[str, Any]:
    """What FlashInfer holds now, in its own file format: {key: [runner, tactic]}."""
    tuner.get().save_configs(str(path))
    if not path.exists():
        return {}
    body = json.loads(path.read_text(encoding="utf-8"))
    return {key: value[:2] for key, value in body.items() if not key.startswith("_")}


def _receipt(spec: dict[str, Any]) -> Any:
    path = Path(spec["env"].get("TUNELAUNCH_RUN_DIR", "/nonexistent")) / "receipts" / f"rank-{spec['rank']}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _serve(model: Any, spec: dict[str, Any], result: dict[str, Any]) -> None:
    """Serve some token counts: the tactics that ran in each layer, and how far the output is from default's kernels."""
    from support.standins import reference
    from tunelaunch.demo import moe_runner

    served: dict[str, Any] = {}
    chosen: list[Any] = []
    run_stage = moe_runner.run_stage

    def noting(stage: int, tactic: Any, *tensors: Any) -> Any:
        chosen.append(tactic)
        return run_stage(stage, tactic, *tensors)

    moe_runner.run_stage = noting
    for tokens in spec.get("serve", [1, 24, 64]):
        chosen.clear()
        worst = 0.0
        for layer, out in zip(model.layers, model(tokens), strict=True):
            right = reference(layer, tokens).float()
            error = float((out.float() - right).norm() / right.norm())
            worst = error if math.isnan(error) else max(worst, error)
        served[str(tokens)] = {"tactics": list(chosen), "error": "nan" if math.isnan(worst) else worst}
    moe_runner.run_stage = run_stage
    result["served"] = served


def _probe_lookups(spec: dict[str, Any], result: dict[str, Any]) -> None:
    """{tokens: bucket} as a lookup maps it now, and again after ``refine_tuning_config`` was called with small values."""
    from tunelaunch.demo import moe_runner

    kind = moe_runner.runner_class()

    def buckets() -> dict[str, int]:
        to_bucket = kind.tuning_config.dynamic_tensor_specs[0].map_to_tuning_buckets
        return {str(tokens): int(to_bucket(tokens)) for tokens in (1, 24, 33, 64, 100, 8000)}

    result["buckets"] = buckets()
    for value in (128, 1, 2, 64, 16):
        kind.refine_tuning_config(value)
    result["buckets_after_refine"] = buckets()

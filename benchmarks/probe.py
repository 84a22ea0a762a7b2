"""A measuring plugin for benchmarks and GPU checks: counts at FlashInfer's own call sites, independent of tunelaunch.

``write_plugin(folder)`` makes a folder for PYTHONPATH; SGLang finds the plugin through its dist-info. In each scheduler it
counts calls of ``AutoTuner._profile_single_kernel``, the seconds of each ``flashinfer_autotune_context``, the rows that
FlashInfer saved, and every lookup outside tuning: op, tokens asked for, bucket looked up, hit or miss. The figures are
written to ``$TL_PROBE_OUT/<pid>.json`` after each new observation.
"""

from __future__ import annotations

from pathlib import Path

_PLUGIN = """
import atexit, json, os, sys, threading, time

STATE = {"pid": os.getpid(), "profiles": 0, "contexts": [], "lookups": {}, "saved": []}

def dump():
    path = os.path.join(os.environ["TL_PROBE_OUT"], f"{os.getpid()}.json")
    with open(path + ".tmp", "w") as f:
        json.dump(STATE, f)
    os.replace(path + ".tmp", path)

def register():
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "run_scheduler_process":
        frame = frame.f_back
    if frame is None or not os.environ.get("TL_PROBE_OUT"):
        return
    from flashinfer.autotuner import AutoTuner
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    profile, search, save = AutoTuner._profile_single_kernel, AutoTuner.search_cache, AutoTuner.save_configs

    def counted(self, *a, **k):
        STATE["profiles"] += 1
        return profile(self, *a, **k)

    def searched(self, custom_op, runners, input_shapes, tuning_config, *a, **k):
        found = search(self, custom_op, runners, input_shapes, tuning_config, *a, **k)
        if not self.is_tuning_mode and os.environ.get("TL_PROBE_LOOKUPS"):
            bucket = AutoTuner._find_nearest_profile(input_shapes, tuning_config)[0][0]
            key = f"{custom_op} {input_shapes[0][0]} {bucket} {'hit' if found[0] else 'miss'} {found[2]}"
            new = key not in STATE["lookups"]
            STATE["lookups"][key] = STATE["lookups"].get(key, 0) + 1
            if new:
                dump()
        return found

    def saved(self, path):
        before = 0
        if os.path.isfile(path):
            try:
                before = sum(not k.startswith("_") for k in json.load(open(path)))
            except ValueError:
                pass
        save(self, path)
        after = sum(not k.startswith("_") for k in json.load(open(path))) if os.path.isfile(path) else 0
        STATE["saved"].append([os.path.basename(path), before, after])
        dump()

    AutoTuner._profile_single_kernel, AutoTuner.search_cache, AutoTuner.save_configs = counted, searched, saved

    def around(original, *a, **k):
        import contextlib
        @contextlib.contextmanager
        def timed():
            start, before = time.monotonic(), STATE["profiles"]
            try:
                with original(*a, **k):
                    yield
            finally:
                STATE["contexts"].append({"seconds": time.monotonic() - start, "profiles": STATE["profiles"] - before})
                dump()
        return timed()

    target = "sglang.srt.model_executor.runner.flashinfer_autotune.flashinfer_autotune_context"
    HookRegistry.register(target, around, HookType.AROUND)
    dump()
"""


def write_plugin(folder: Path) -> Path:
    """Make ``folder`` a PYTHONPATH entry with the plugin; returns it."""
    info = folder / "tl_probe-0.1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tl-probe\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\naa_tl_probe = tl_probe:register\n")
    (folder / "tl_probe.py").write_text(_PLUGIN)
    return folder

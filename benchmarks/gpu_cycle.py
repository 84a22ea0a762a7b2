"""The whole cycle on a GPU, beside plain SGLang: profiles run, seconds in the tuning pass, lookups while serving.

    python benchmarks/gpu_cycle.py --model DIR --out OUT [--fp8-model DIR] [--only cold,warm,...]

Starts real servers one after another with dummy weights and the CUTLASS MoE runner, each with the measuring plugin of
``probe.py``; sends requests by token id; stops each with SIGTERM. Writes ``OUT/figures.json`` and each server's log.
Needs SGLang, FlashInfer and tunelaunch importable, and a GPU on which FlashInfer's CUTLASS MoE module is built.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import corrupt
import probe

FLAGS = [
    *("--load-format", "dummy", "--skip-tokenizer-init", "--attention-backend", "triton"),
    *("--sampling-backend", "pytorch", "--grammar-backend", "none", "--moe-runner-backend", "flashinfer_cutlass"),
    *("--disable-piecewise-cuda-graph", "--mem-fraction-static", "0.85", "--max-total-tokens", "300000"),
    *("--chunked-prefill-size", "8192"),
]


@dataclass(frozen=True)
class Start:
    """One server start. ``plain``: SGLang alone; ``prompts``: prompt lengths in tokens, sent one after another."""

    name: str
    model: str
    port: int
    plain: bool = False
    extra: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    prompts: tuple[int, ...] = (100, 8000, 1, 300)


def post(port: int, body: dict[str, Any], timeout: float = 60.0) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/generate", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.load(answer)


def wait_up(process: subprocess.Popen[bytes], port: int, deadline: float) -> bool:
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
            return True
        except OSError:
            time.sleep(0.5)
    return False


def run(start: Start, out: Path, common: dict[str, str]) -> dict[str, Any]:
    probe_out = out / f"probe-{start.name}"
    probe_out.mkdir(parents=True, exist_ok=True)
    module = "sglang.launch_server" if start.plain else "tunelaunch"
    command = [
        sys.executable,
        "-m",
        module,
        "--model-path",
        start.model,
        *FLAGS,
        "--port",
        str(start.port),
        *start.extra,
    ]
    env = {**os.environ, **common, **start.env, "TL_PROBE_OUT": str(probe_out)}
    began = time.monotonic()
    log = (out / f"{start.name}.log").open("wb")
    process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    result: dict[str, Any] = {"name": start.name, "plain": start.plain}
    try:
        result["up"] = wait_up(process, start.port, began + 300)
        result["seconds_to_up"] = round(time.monotonic() - began, 1)
        if result["up"]:
            draw, answers = random.Random(7), []
            for length in start.prompts:
                ids = [draw.randrange(5, 30000) for _ in range(length)]
                sent = time.monotonic()
                body = {
                    "input_ids": ids,
                    "sampling_params": {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True},
                }
                answer = post(start.port, body)
                answers.append([length, round(time.monotonic() - sent, 4), answer.get("output_ids")])
            result["answers"] = answers
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            result["exit"] = process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            result["exit"] = "killed"
        log.close()
    figures = [json.loads(p.read_text()) for p in sorted(probe_out.glob("*.json"))]
    result["profiles_by_rank"] = [f["profiles"] for f in figures]
    result["contexts"] = [f["contexts"] for f in figures]
    result["saved"] = [f["saved"] for f in figures]
    result["lookups"] = [f["lookups"] for f in figures]
    text = (out / f"{start.name}.log").read_text(errors="replace")
    result["misses"] = len(re.findall(r"No tuned config covers", text))
    result["tunelaunch"] = [line for line in text.splitlines() if "tunelaunch" in line and "it/s" not in line][-30:]
    shutil.rmtree(probe_out)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--fp8-model")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--work", default="/tmp/tunelaunch-gpu-cycle", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", default="64", help="--cuda-graph-max-bs and --max-running-requests")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    moved = args.work / "another-path"
    if not moved.exists():
        shutil.copytree(args.model, moved)
    plugin = corrupt.write_plugin(probe.write_plugin(args.work / "plugin"))
    common = {
        "PYTHONPATH": os.pathsep.join([str(plugin), os.environ.get("PYTHONPATH", "")]),
        "TUNELAUNCH_CACHE_DIR": str(args.work / "root"),
        "SGLANG_CACHE_DIR": str(args.work / "sglang-cache"),
        "TL_PROBE_LOOKUPS": "1",
    }
    batch = ("--cuda-graph-max-bs", args.batch, "--max-running-requests", args.batch)
    fp8 = (*batch, "--quantization", "modelopt_fp8")
    starts = [
        Start("cold", args.model, 30111, extra=batch),
        Start("warm", args.model, 30112, extra=batch),
        Start("moved", str(moved), 30113, extra=batch),
        Start("plain", args.model, 30114, plain=True, extra=batch),
        Start("plain-moved", str(moved), 30115, plain=True, extra=batch),
        Start("retune", args.model, 30116, extra=("--retune", *batch)),
    ]
    fresh = {name: {"TUNELAUNCH_CACHE_DIR": str(args.work / f"root-{name}")} for name in ("cold2", "quick", "wrong")}
    starts += [
        Start("cold2", args.model, 30120, extra=batch, env=fresh["cold2"]),
        Start("quick", args.model, 30121, extra=("--tunelaunch-effort", "quick", *batch), env=fresh["quick"]),
        Start(
            "wrong",
            args.model,
            30122,
            extra=batch,
            env=fresh["wrong"] | {"TL_CORRUPT": "4:nan,3:wrong24,16:tail,6:scale"},
        ),
        Start("wrong-again", args.model, 30123, extra=batch, env=fresh["wrong"]),
    ]
    if args.fp8_model:
        starts += [
            Start("fp8-cold", args.fp8_model, 30117, extra=fp8),
            Start("fp8-warm", args.fp8_model, 30118, extra=fp8),
            Start("bf16-after-fp8", args.model, 30119, extra=batch),
        ]
    chosen = set(args.only.split(",")) if args.only else {s.name for s in starts}
    results = []
    for start in starts:
        if start.name in chosen:
            results.append(run(start, args.out, common))
            (args.out / "figures.json").write_text(json.dumps(results, indent=1))
            print(json.dumps({k: v for k, v in results[-1].items() if k != "lookups"}, indent=1)[:3000], flush=True)
    with tarfile.open(args.out / "roots.tar.gz", "w:gz") as archive:
        for root in sorted(args.work.glob("root*")):
            archive.add(root, root.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

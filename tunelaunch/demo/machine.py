"""What the demo serves and with which flags, on a machine with a GPU and on one without.

Nothing is started here; :func:`plan` looks at the machine once and decides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tunelaunch.demo import model

_COMMON = ("--skip-server-warmup", "--disable-cuda-graph", "--random-seed", "0")

# Small sizes keep the number of buckets to tune, and so the demo's length, small.
_CPU_FLAGS = (
    "--device", "cpu", "--attention-backend", "torch_native", "--max-total-tokens", "256",
    "--max-running-requests", "16", "--chunked-prefill-size", "128", "--max-prefill-tokens", "128",
    "--grammar-backend", "none", *_COMMON,
)  # fmt: skip

_GPU_FLAGS = (
    "--load-format", "dummy", "--moe-runner-backend", "flashinfer_cutlass", "--attention-backend", "triton",
    "--sampling-backend", "pytorch", "--max-running-requests", "64", "--max-total-tokens", "16384",
    "--mem-fraction-static", "0.6", *_COMMON,
)  # fmt: skip


@dataclass(frozen=True)
class Setup:
    """One machine's demo. ``seconds`` is how long a start may take; ``simulated`` says what is not real, in words."""

    gpu: str | None
    flags: tuple[str, ...]
    seconds: float
    simulated: tuple[str, ...] = ()

    def make_model(self, directory: Path) -> None:
        """Write the model directory: tiny with real weights without a GPU, shapes only (dummy weights) with one."""
        if self.gpu is None:
            model.make_tiny_moe(directory)
            return
        directory.mkdir(parents=True, exist_ok=True)
        shape = model.moe_config(
            dtype="bfloat16", experts=128, top_k=8, hidden=2048, inter=768, layers=4, heads=32, kv_heads=4, head_dim=128
        )
        model.write_config(directory, config=shape)

    def environ(self, base: Mapping[str, str], *, counts: Path, sglang_cache: Path) -> dict[str, str]:
        """The environment of one start: the caller's, without what would steer tunelaunch or SGLang's plugins."""
        env = {
            name: value
            for name, value in base.items()
            if name != "SGLANG_PLUGINS"
            and (not name.startswith("TUNELAUNCH_") or name.startswith("TUNELAUNCH_CPU_HOST_"))
        }
        # A cache of SGLang's own that survived the first start would explain a quick second one.
        env |= {"SGLANG_CACHE_DIR": str(sglang_cache), "HF_HUB_OFFLINE": "1"}
        if self.gpu is None:
            env |= {"TUNELAUNCH_CPU_HOST": "1", "TUNELAUNCH_CPU_HOST_COUNTS": str(counts)}
            env.setdefault("SGLANG_DISABLED_MODEL_ARCHS", ",".join(other_architectures()))
        return env


def plan() -> Setup:
    """The demo for this machine: with its first GPU if NVML names one, else on the CPU."""
    from tunelaunch.device.nvml import read_devices

    devices = read_devices().devices
    if devices and os.environ.get("CUDA_VISIBLE_DEVICES") != "":
        # The first start on a GPU can compile kernels for many minutes.
        return Setup(gpu=devices[0].name, flags=_GPU_FLAGS, seconds=3600.0)
    return Setup(
        gpu=None,
        flags=_CPU_FLAGS,
        seconds=600.0,
        simulated=(
            "the GPU: its name, capability and stream, as torch.cuda is asked for them",
            "the kernels: four torch implementations of each half of an MoE layer, timed by wall clock",
        ),
    )


def other_architectures(keep: str = "qwen3_moe") -> list[str]:
    """SGLang's model modules except ``keep``. SGLang imports all of them at a start unless told not to: seconds."""
    import importlib.util

    found = importlib.util.find_spec("sglang")
    for root in (found.submodule_search_locations or []) if found else []:
        names = {path.stem for path in (Path(root) / "srt" / "models").glob("*.py")}
        return sorted(names - {keep, "__init__"})
    return []

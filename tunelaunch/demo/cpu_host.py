"""Real SGLang and real FlashInfer autotuning on a machine without a GPU, for the demo and the tests.

``register`` is an SGLang general plugin (entry point ``tunelaunch-cpu-host``, group ``sglang.srt.plugins``). It does
nothing and imports nothing unless ``TUNELAUNCH_CPU_HOST=1``; then, in scheduler processes of a machine without CUDA, it

- fakes the CUDA answers and the timing that are listed in :mod:`tunelaunch.demo.fake_cuda`,
- supplies an empty ``vllm._custom_ops``, which SGLang's CPU path imports and never calls,
- sends the served MoE layer through FlashInfer's AutoTuner and runs SGLang's autotune pass
  (:mod:`tunelaunch.demo.moe_layer`).

Everything else is real: server, scheduler, ranks and their process groups, AutoTuner, its cache files and lookups, and
kernels that differ and whose times differ. It knows nothing of tunelaunch's plugin.

Variables: ``TUNELAUNCH_CPU_HOST`` (1: on), ``..._GPU``, ``..._CAPABILITY``, ``..._SMS`` and ``..._TIMES`` (fake_cuda),
``..._KEYS`` and ``..._BROKEN`` (moe_runner), ``..._COUNTS`` (counts).
"""

from __future__ import annotations

import os
import sys


def register() -> None:
    """The plugin: inert unless switched on, and in processes that run no model."""
    if os.environ.get("TUNELAUNCH_CPU_HOST") != "1":
        return
    # SGLang loads plugins in launcher and detokenizer too, where a hook would import the model code for nothing.
    if "sglang.srt.managers.scheduler" in sys.modules:
        install()


def install() -> None:
    """Turn this process into a CPU host, if the machine has no CUDA."""
    import torch

    if torch.cuda.is_available():
        return
    from tunelaunch.demo import fake_cuda, moe_layer

    _supply_vllm()
    fake_cuda.install()
    moe_layer.register_hooks()


def _supply_vllm() -> None:
    import importlib.util
    import types

    if "vllm" in sys.modules or importlib.util.find_spec("vllm") is not None:
        return
    package, ops = types.ModuleType("vllm"), types.ModuleType("vllm._custom_ops")

    def rotary_embedding(*args: object, **kwargs: object) -> None:
        raise NotImplementedError("tunelaunch's CPU host supplies the name of this vLLM kernel, not the kernel")

    package.__path__ = []
    ops.rotary_embedding = rotary_embedding  # type: ignore[attr-defined]
    package._custom_ops = ops  # type: ignore[attr-defined]
    sys.modules["vllm"], sys.modules["vllm._custom_ops"] = package, ops

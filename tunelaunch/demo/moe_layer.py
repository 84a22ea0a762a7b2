"""SGLang's served mixture-of-experts layer and its autotune pass, on a machine without a GPU.

Two hooks, both through SGLang's own ``HookRegistry``:

- the CPU forward of an unquantized MoE layer (``UnquantizedFusedMoEMethod``) goes through FlashInfer's AutoTuner
  (:func:`tunelaunch.demo.moe_runner.fused_moe`). Layers that the torch implementations do not cover (bias, router
  weight on the input, another activation, weights packed for AMX) keep SGLang's own path;
- ``BaseRunner.warmup`` returns early unless the device is CUDA. After it, the runner's own ``_flashinfer_autotune`` is
  run with its own decode-shaped buffers: SGLang's real dummy forward of the real model at the largest number of running
  requests, inside SGLang's real ``run_flashinfer_autotune_forward``. The torch attention backend has no
  ``get_cuda_graph_seq_len_fill_value``; the dummy requests get length 1, as with most other backends. SGLang's switches
  are kept: no pass with ``--disable-flashinfer-autotune`` or ``--enable-deterministic-inference``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from tunelaunch.demo.counts import LEDGER

logger = logging.getLogger(__name__)

_METHOD = "sglang.srt.layers.quantization.unquant.UnquantizedFusedMoEMethod"
_WARMUP = "sglang.srt.model_executor.runner.base_runner.BaseRunner.warmup"


def register_hooks() -> None:
    """Register both hooks; SGLang applies them once all plugins are loaded."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    # forward_native is a second name of forward_cpu, and the one that machines without AMX call.
    for name in ("forward_cpu", "forward_native"):
        HookRegistry.register(f"{_METHOD}.{name}", forward_moe, HookType.AROUND)
    HookRegistry.register(_WARMUP, warm_up, HookType.AROUND)


def forward_moe(original: Callable[..., Any], method: Any, layer: Any, dispatch_output: Any) -> Any:
    """Answer one call of the layer through FlashInfer's AutoTuner, or through SGLang where that is not possible."""
    if not _covered(method, layer, dispatch_output):
        return original(method, layer, dispatch_output)
    from sglang.srt.layers.moe.token_dispatcher import StandardCombineInput

    from tunelaunch.demo.moe_runner import fused_moe

    scales, ids, *_ = dispatch_output.topk_output
    out = fused_moe(
        dispatch_output.hidden_states,
        layer.w13_weight,
        layer.w2_weight,
        ids,
        scales,
        activation=method.moe_runner_config.activation,
    )
    return StandardCombineInput(hidden_states=out)


def _covered(method: Any, layer: Any, dispatch_output: Any) -> bool:
    config = method.moe_runner_config
    return (
        config.activation == "silu"
        and getattr(config, "gemm1_alpha", None) is None
        and not config.apply_router_weight_on_input
        and getattr(layer, "w13_weight_bias", None) is None
        and not getattr(layer, "use_intel_amx_backend", False)
        and dispatch_output.hidden_states.shape[0] > 0
    )


def warm_up(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    """SGLang's warm-up, then its autotune pass, once a model."""
    model_runner = runner.model_runner
    first = not getattr(model_runner, "_kernel_warmed_up", False)
    result = original(runner, *args, **kwargs)
    if first and model_runner.device == "cpu" and not _switched_off(model_runner.server_args):
        _autotune(runner)
    return result


def _autotune(runner: Any) -> None:
    model_runner = runner.model_runner
    # Releases that select a layout for a runner's model need it here as well.
    context = runner.model_context() if hasattr(runner, "model_context") else contextlib.nullcontext()
    try:
        with context:
            _supply_fill_value(model_runner.attn_backend)
            buffers, batch_size = runner._autotune_buffers()
            logger.info("tunelaunch CPU host: autotune pass at %s tokens, timed by wall clock on the CPU", batch_size)
            runner._flashinfer_autotune(buffers=buffers, batch_size=batch_size)
    finally:
        LEDGER.end_of_pass(_rank(model_runner))


def _supply_fill_value(backend: Any) -> None:
    try:
        backend.get_cuda_graph_seq_len_fill_value()
    except NotImplementedError:
        backend.get_cuda_graph_seq_len_fill_value = lambda: 1


def _switched_off(server_args: Any) -> bool:
    switches = ("disable_flashinfer_autotune", "enable_deterministic_inference")
    return any(getattr(server_args, switch, False) for switch in switches)


def _rank(model_runner: Any) -> int:
    import torch.distributed as dist

    return dist.get_rank() if dist.is_initialized() else int(getattr(model_runner, "tp_rank", 0))

"""SGLang, as tunelaunch uses it: hook targets, process roles, groups and layers of SGLang 0.5.16 to 0.5.23.

Nothing is imported from SGLang until a function is called. Names that a release lacks are found by :func:`probe`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

AUTOTUNE = "sglang.srt.model_executor.runner.flashinfer_autotune"
CONTEXT = f"{AUTOTUNE}.flashinfer_autotune_context"
CACHE_PATH = f"{AUTOTUNE}.flashinfer_autotune_cache_path"
EXTEND = f"{AUTOTUNE}.maybe_flashinfer_autotune_extend"
GATE = f"{AUTOTUNE}.should_run_flashinfer_autotune"
EXTEND_SWITCH = "SGLANG_FLASHINFER_AUTOTUNE_EXTEND"
READY = "sglang.srt.entrypoints.engine._wait_for_scheduler_ready"

_ROLES = {
    "run_scheduler_process": "scheduler",
    "run_detokenizer_process": "detokenizer",
    "run_data_parallel_controller_process": "controller",
}
DEFAULT_TOKEN_CAP = 8192
"""FlashInfer's own largest MoE bucket (the default of ``cutlass_fused_moe(tune_max_num_tokens=...)``)."""


def version() -> str:
    """SGLang's version string, for reports."""
    import sglang

    return str(getattr(sglang, "__version__", "unknown"))


def process_role() -> str:
    """What this process is to SGLang: ``main``, ``scheduler``, ``detokenizer``, ``controller`` or ``unknown``.

    Plugins are loaded from inside the process's entry function, so that its name is on the stack.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name in _ROLES:
            return _ROLES[frame.f_code.co_name]
        frame = frame.f_back
    import multiprocessing

    return "main" if multiprocessing.parent_process() is None else "unknown"


def place_in_server() -> tuple[int, int] | None:
    """(rank, ranks in all) of this scheduler over the whole server, read from its entry function's arguments.

    Tensor- and pipeline-parallel ranks of one data-parallel replica come first, then the next replica's. ``None`` outside
    a scheduler, or where a release names its arguments otherwise.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "run_scheduler_process":
        frame = frame.f_back
    try:
        given = frame.f_locals
        args = given["server_args"]
        inside = int(args.tp_size) * int(args.pp_size)
        replicas = 1 if getattr(args, "enable_dp_attention", False) else int(args.dp_size)
        replica = int(given.get("dp_rank") or 0) if replicas > 1 else 0
        return replica * inside + int(given["pp_rank"]) * int(args.tp_size) + int(given["tp_rank"]), inside * replicas
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


TUNABLE_MOE = (
    "flashinfer_cutlass",
    "flashinfer_mxfp4",
    "flashinfer_cutedsl",
    "flashinfer_trtllm",
    "flashinfer_trtllm_routed",
)
"""MoE runners that SGLang tunes, in the order in which they are worth trying; trtllm kernels are for SM100 only."""


def server_args_of_process() -> Any | None:
    """The resolved server arguments of this scheduler, from its entry function."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "run_scheduler_process":
        frame = frame.f_back
    return frame.f_locals.get("server_args") if frame is not None else None


def why_nothing_to_tune(args: Any) -> str:
    """Why SGLang runs no tuning pass with these resolved arguments, as far as they tell."""
    device = str(getattr(args, "device", None))
    if device != "cuda":
        return f"the device is {device}, and SGLang tunes on CUDA only"
    if getattr(args, "disable_flashinfer_autotune", False):
        return "--disable-flashinfer-autotune was given"
    if getattr(args, "enable_deterministic_inference", False):
        return "deterministic inference was asked for, and tuned tactics follow the batch's shape"
    runner, quantization = getattr(args, "moe_runner_backend", None), getattr(args, "quantization", None)
    return (
        f"SGLang finds nothing to tune for MoE runner {runner} and quantization {quantization} on this device; "
        f"MoE runners that it tunes: {', '.join(TUNABLE_MOE[:3])} (SM90 and later, SM120 included)"
    )


def probe() -> list[str]:
    """Names that this release lacks and that tunelaunch hooks; empty when it can be used."""
    import importlib

    try:
        module = importlib.import_module(AUTOTUNE)
    except ImportError:
        return [AUTOTUNE]
    wanted = [target.rpartition(".")[2] for target in (CONTEXT, CACHE_PATH, GATE)]
    missing = [f"{AUTOTUNE}.{name}" for name in wanted if not hasattr(module, name)]
    if not missing and "model_runner" not in inspect.signature(module.flashinfer_autotune_context).parameters:
        missing.append(f"{CONTEXT}(model_runner)")
    return missing


def has_extend() -> bool:
    """Whether this release has an EXTEND pass at all (0.5.18 and later)."""
    import importlib

    return hasattr(importlib.import_module(AUTOTUNE), EXTEND.rpartition(".")[2])


def hook(target: str, function: Callable[..., Any], kind: str) -> None:
    """Register ``function`` on ``target`` with SGLang's own registry; ``kind`` is ``AROUND`` or ``AFTER``."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(target, function, HookType[kind])


def tp_group() -> Any | None:
    """The tensor-parallel group coordinator (``world_size``, ``rank_in_group``, ``ranks``, ``cpu_group``), if there is one."""
    from sglang.srt.distributed import parallel_state

    try:
        return parallel_state.get_tp_group()
    except (AssertionError, RuntimeError):  # not built yet: the former up to 0.5.20, the latter from 0.5.22 on
        return None


def global_rank() -> tuple[int, int]:
    """(rank, world size) over all processes of the server's distributed world; (0, 1) before it exists."""
    import torch.distributed as dist

    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def token_cap(model_runner: Any) -> int:
    """Largest number of tokens, a power of two, that one forward pass can bring to an MoE op of this server.

    At least FlashInfer's own largest bucket, so that servers with other chunk sizes share rows; less only where the KV
    cache itself holds fewer tokens.
    """
    tokens = max(DEFAULT_TOKEN_CAP, prefill_ceiling(model_runner))
    pool = getattr(model_runner, "max_total_num_tokens", None)
    if isinstance(pool, int) and pool > 0:
        tokens = min(tokens, max(pool, getattr(model_runner, "max_running_requests", None) or 1))
    return 1 << max(tokens - 1, 0).bit_length()


def prefill_ceiling(model_runner: Any) -> int:
    """Tokens of the largest prefill chunk over the attention-DP ranks whose tokens MoE gathers (0 when unknown)."""
    args = model_runner.server_args
    chunk = getattr(args, "chunked_prefill_size", None) or 0
    tokens = chunk if chunk > 0 else (getattr(args, "max_prefill_tokens", None) or 0)
    gathered = (getattr(args, "dp_size", 1) or 1) if getattr(args, "enable_dp_attention", False) else 1
    return int(tokens) * int(gathered)


def extend_tokens(model_runner: Any) -> int:
    """Tokens of SGLang's EXTEND pass on one rank: the chunk, or ``max_prefill_tokens`` where chunking is off."""
    args = model_runner.server_args
    chunk = int(getattr(args, "chunked_prefill_size", None) or 0)
    return chunk if chunk > 0 else int(getattr(args, "max_prefill_tokens", None) or 0)


def why_no_extend(model_runner: Any) -> str | None:
    """Why an EXTEND pass must not be run for this model, or ``None``."""
    if getattr(getattr(model_runner, "model_config", None), "is_multimodal", False):
        return "multimodal models cannot run it"
    speculative = getattr(model_runner, "spec_algorithm", None)
    if speculative is not None and speculative.is_speculative():
        return "speculative decoding runs another shape"
    return None


def activation_bytes_per_token(model_runner: Any) -> int:
    """A generous estimate of what one token of a dummy forward pass holds at its peak, weights and KV cache aside."""
    config: Any = getattr(model_runner.model_config, "hf_text_config", None) or model_runner.model_config.hf_config
    hidden = int(getattr(config, "hidden_size", 8192))
    inner = int(getattr(config, "moe_intermediate_size", 0) or getattr(config, "intermediate_size", 0) or 4 * hidden)
    top_k = int(getattr(config, "num_experts_per_tok", 0) or 1)
    return 2 * (16 * hidden + top_k * (2 * hidden + 4 * inner))


def free_bytes(model_runner: Any) -> int | None:
    """Free memory of this rank's device, ``None`` where the device has none of its own."""
    import torch

    if not str(getattr(model_runner, "device", "")).startswith("cuda"):
        return None
    cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(torch.cuda.mem_get_info()[0] + cached)


def pass_name(model_runner: Any) -> str:
    """A name for one tuning pass in reports."""
    return "draft" if getattr(model_runner, "is_draft_worker", False) else "target"


def uses_all_to_all(model_runner: Any) -> bool:
    """Whether MoE layers exchange tokens between ranks inside the layer (then one rank alone cannot re-run it)."""
    backend = getattr(model_runner.server_args, "moe_a2a_backend", "none")
    return str(getattr(backend, "value", backend)).lower() not in ("none", "")


def named_modules(model_runner: Any) -> Iterator[tuple[str, Any]]:
    """Every ``torch.nn.Module`` of the model with its name, the same on every rank of a tensor-parallel group."""
    model = getattr(model_runner, "model", None)
    return iter(model.named_modules()) if model is not None and hasattr(model, "named_modules") else iter(())


def is_moe_layer(module: Any) -> bool:
    """Whether ``module`` is one of SGLang's fused MoE layers (routed experts only)."""
    return any(cls.__name__ == "FusedMoE" for cls in type(module).__mro__)


def is_linear_layer(module: Any) -> bool:
    """Whether ``module`` is one of SGLang's (possibly quantized) linear layers."""
    return any(cls.__name__ == "LinearBase" for cls in type(module).__mro__)


def number_of_experts(module: Any) -> int:
    """Routed experts of a MoE layer over all ranks."""
    return int(getattr(module, "num_experts", 0))


def forward_stream(model_runner: Any) -> Any | None:
    """The stream on which SGLang runs its forward passes, if the device has streams."""
    return getattr(model_runner, "forward_stream", None)

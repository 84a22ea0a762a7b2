"""The host's side of a rank with SGLang itself installed: its groups, its hooks, its autotune context, all real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AUTOTUNE = "sglang.srt.model_executor.runner.flashinfer_autotune"
TIMEOUT_SECONDS = 120


def prepare() -> None:
    """Import everything once, in the nest, so that a forked rank starts at once."""
    import importlib

    for name in (
        "flashinfer.autotuner",
        AUTOTUNE,
        "sglang.srt.layers.logits_processor",
        "sglang.srt.layers.moe.flashinfer_megamoe_autotune",
        "sglang.srt.distributed.parallel_state",
        "sglang.srt.layers.sampler",
        "sglang.srt.server_args",
        "sglang.srt.plugins.hook_registry",
        "tunelaunch.demo.moe_runner",
        "tunelaunch.ranks.hooks",
        "tunelaunch.ranks.session",
        "tunelaunch.ranks.passes",
    ):
        importlib.import_module(name)
    from tunelaunch.device.packages import packages_digest
    from tunelaunch.hosts import flashinfer as fi

    fi.metadata(), packages_digest()  # what they load and cache is there for every rank


def apply_hooks() -> None:
    """What SGLang does once all plugins are loaded."""
    from sglang.srt.plugins import hook_registry

    # Looking for stale bindings in thousands of modules takes seconds a rank, and no module here has one of our targets.
    hook_registry._propagate_patch = lambda *args: 0
    hook_registry.HookRegistry.apply_hooks()


def connect(spec: dict[str, Any]) -> Any:
    """Build SGLang's own parallel state over gloo; its tensor-parallel coordinator."""
    from sglang.srt import runtime_context
    from sglang.srt.distributed import parallel_state

    world, rank = spec["world"], spec["rank"]
    runtime_context.get_context().override_server_args(device="cpu", tp_size=world).install()
    runtime_context.get_parallel().override_permanently(tp_rank=rank, pp_rank=0, dp_rank=None)
    parallel_state.init_distributed_environment(
        world_size=world, rank=rank, local_rank=rank, backend="gloo", timeout=TIMEOUT_SECONDS,
        distributed_init_method=f"tcp://127.0.0.1:{spec['port']}",
    )  # fmt: skip
    parallel_state.initialize_model_parallel(backend="gloo")
    return parallel_state.get_tp_group()


def autotune(model_runner: Any, forward: Callable[[], Any]) -> None:
    """SGLang's own ``run_flashinfer_autotune_forward``, in the parameters of its release."""
    import importlib
    import inspect

    function = importlib.import_module(AUTOTUNE).run_flashinfer_autotune_forward
    named = "run_lm_head" if "run_lm_head" in inspect.signature(function).parameters else "skip_logits"
    function(model_runner, forward, **{named: False})

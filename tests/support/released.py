"""The host's side of a rank for a release whose SGLang is not installed: a module of the same shape as ``worlds``.

Executed as released: ``flashinfer_autotune.py`` and ``hook_registry.py`` of the SGLang in ``TUNELAUNCH_TEST_SGLANG``, and the
whole FlashInfer that is first on the path. Stand-ins, named here and nowhere else: what these two files import from the
rest of SGLang, and the tensor-parallel coordinator (a gloo group over the world).
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.worlds import AUTOTUNE, TIMEOUT_SECONDS, autotune

__all__ = ["apply_hooks", "autotune", "connect", "prepare"]

REGISTRY = "sglang.srt.plugins.hook_registry"
_TP: dict[str, Any] = {"group": None}


def prepare() -> None:
    """Put the stand-ins in place, execute the two released files, import FlashInfer and tunelaunch."""
    _install(os.environ["TUNELAUNCH_TEST_SGLANG_VERSION"])
    for name in (REGISTRY, AUTOTUNE):
        _execute(name, Path(os.environ["TUNELAUNCH_TEST_SGLANG"]))
    for name in ("flashinfer.autotuner", "tunelaunch.demo.moe_runner", "tunelaunch.ranks.hooks"):
        importlib.import_module(name)
    for name in ("tunelaunch.ranks.passes", "tunelaunch.ranks.session"):
        importlib.import_module(name)


def apply_hooks() -> None:
    """What SGLang does once all plugins are loaded."""
    sys.modules[REGISTRY].HookRegistry.apply_hooks()


def connect(spec: dict[str, Any]) -> Any:
    """A gloo world, and a stand-in for SGLang's coordinator over it."""
    import torch.distributed as dist

    world, rank = spec["world"], spec["rank"]
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{spec['port']}", world_size=world, rank=rank,
        timeout=datetime.timedelta(seconds=TIMEOUT_SECONDS),
    )  # fmt: skip
    group = dist.new_group(list(range(world)), backend="gloo")
    _TP["group"] = SimpleNamespace(world_size=world, rank_in_group=rank, ranks=list(range(world)), cpu_group=group)
    return _TP["group"]


def _execute(name: str, root: Path) -> None:
    path = root.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], module)


def _install(version: str) -> None:
    """Stand-ins for what the released files import from SGLang."""
    _module("sglang", __version__=version)
    _module("sglang.srt.environ", envs=_StandInEnvs())
    _module("sglang.srt.distributed.parallel_state", get_tp_group=lambda: _TP["group"])
    _module("sglang.srt.model_executor.forward_batch_info", ForwardMode=SimpleNamespace(EXTEND="extend"))
    _module("sglang.srt.model_executor.runner")
    _module("sglang.srt.plugins")
    _module("sglang.srt.layers.logits_processor", autotune_dummy_run_mode=_nothing)
    _module("sglang.srt.layers.moe.flashinfer_megamoe_autotune", megamoe_autotune_context=_nothing)
    _module(
        "sglang.srt.utils", empty_context=contextlib.nullcontext, log_info_on_rank0=lambda log, line: log.info(line)
    )
    _module("sglang.srt.utils.common", get_eager_max_batch_size=lambda largest: largest)
    kernel = SimpleNamespace(flashinfer_autotune_skip_ops=None, disable_flashinfer_autotune=False)
    context = {
        "get_exec": SimpleNamespace(kernel=kernel, moe=SimpleNamespace(moe_runner_backend="flashinfer_cutlass")),
        "get_model": SimpleNamespace(model_path="stand-in", quantization=None),
        "get_parallel": _StandInParallel(),
        "get_schedule": SimpleNamespace(max_prefill_tokens=8),
        "get_spec": SimpleNamespace(),
        "get_disagg": SimpleNamespace(disaggregation_mode="null"),
    }
    getters: dict[str, Any] = {name: (lambda value=value: value) for name, value in context.items()}
    numbers = {"max_prefill_buffer_tokens": lambda: 0, "max_speculative_num_draft_tokens": lambda: 0}
    _module("sglang.srt.runtime_context", **getters, **numbers)


class _StandInEnvs:
    """``envs.NAME.get()`` for the variables that the autotune file reads."""

    def __getattr__(self, name: str) -> Any:
        defaults: dict[str, Callable[[str | None], Any]] = {
            "SGLANG_CACHE_DIR": lambda text: text or "/nonexistent",
            "SGLANG_FLASHINFER_AUTOTUNE_CACHE": lambda text: text not in ("0", "false"),
            "SGLANG_FLASHINFER_AUTOTUNE_EXTEND": lambda text: text in ("1", "true"),
        }
        return SimpleNamespace(get=lambda: defaults[name](os.environ.get(name)))


class _StandInParallel:
    """Sizes and ranks as ``get_parallel()`` gives them."""

    pp_size = attn_dp_size = moe_ep_size = 1
    pp_rank, dp_rank = 0, None

    @property
    def tp_group(self) -> Any:
        """The coordinator."""
        return _TP["group"]

    @property
    def tp_size(self) -> int:
        """Ranks in the group."""
        return int(_TP["group"].world_size)

    @property
    def tp_rank(self) -> int:
        """This rank in the group."""
        return int(_TP["group"].rank_in_group)


@contextlib.contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def _module(name: str, **values: Any) -> None:
    """A module with ``values``, and its packages."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        full = ".".join(parts[:length])
        if full not in sys.modules:
            module = types.ModuleType(full)
            module.__path__ = []
            sys.modules[full] = module
            if length > 1:
                setattr(sys.modules[".".join(parts[: length - 1])], parts[length - 1], module)
    vars(sys.modules[name]).update(values)

"""A FlashInfer runner over the torch implementations of a mixture-of-experts layer.

Structured like FlashInfer's CUTLASS MoE on purpose, faults included, because that is what the rest of tunelaunch has to
cope with: two ops of one runner class, one a stage, whose profiles see activations and weights only and make up their
own routing; tactic ids of stage 2 that continue after stage 1's; a class-wide ``tuning_config`` whose last new value
caps every later lookup; and, with ``TUNELAUNCH_CPU_HOST_KEYS=weak``, a key that says nothing but shapes.

``TUNELAUNCH_CPU_HOST_BROKEN="<op>=<tactic>:<how>[,...]"`` spoils single tactics, for tests of verification. How:

=======  ===================================================================================================
nan      every output is NaN
nan24    NaN, above 16 tokens only (a fault that no profile of a small server meets)
scale    outputs are half as large again
tail     the last token's outputs are zero
slow     5 ms slower whenever it is not being profiled: wins its profile, loses in the layer
raise    raises ``RuntimeError``
kill     kills its own process
=======  ===================================================================================================
"""

from __future__ import annotations

import functools
import os
import signal
import time
from typing import Any

import torch
from flashinfer.autotuner import AutoTuner, DynamicTensorSpec, TunableRunner, TuningConfig, is_in_profile_measurement
from flashinfer.fused_moe.utils import get_hybrid_num_tokens_buckets, map_to_hybrid_bucket

from tunelaunch.demo.counts import LEDGER
from tunelaunch.demo.moe_kernels import GEMM1, GEMM2, gemm1_gathered, gemm2_gathered

OPS = ("tunelaunch_cpu::fused_moe::gemm1", "tunelaunch_cpu::fused_moe::gemm2")
KERNELS: tuple[Any, ...] = (*GEMM1, *GEMM2)
"""By tactic id; the default, -1, is the first one of the stage."""

_GATHERED = (gemm1_gathered, gemm2_gathered)
_GATHER_AT_MOST = 256

_FIRST = (0, len(GEMM1))
_COUNT = (len(GEMM1), len(GEMM2))


@functools.cache
def _mapper(cap: int) -> Any:
    # One object a cap: FlashInfer keeps it in the key of a lookup cache.
    return functools.partial(map_to_hybrid_bucket, max_num_tokens=cap)


def _config(cap: int) -> TuningConfig:
    return TuningConfig(
        dynamic_tensor_specs=(DynamicTensorSpec((0,), (0,), get_hybrid_num_tokens_buckets(cap), _mapper(cap)),)
    )


class CpuMoERunner(TunableRunner):
    """One layer's experts; ``gemm_idx_for_tuning`` (1 or 2) says which stage ``choose_one`` is about."""

    tuning_config = _config(8192)

    def __init__(self, x_dtype: torch.dtype, weight_dtype: torch.dtype, top_k: int, activation: str) -> None:
        self.x_dtype = x_dtype
        self.weight_dtype = weight_dtype
        self.top_k = top_k
        self.activation = activation
        self.gemm_idx_for_tuning: int | None = None

    @property
    def op(self) -> str:
        """The op that is being chosen for; what planted timings are looked up by."""
        return OPS[(self.gemm_idx_for_tuning or 1) - 1]

    def get_valid_tactics(self, inputs: list[torch.Tensor], profile: Any) -> list[int]:
        """Tactic ids of the current stage. Copying weights for each token is no option for many tokens."""
        stage = (self.gemm_idx_for_tuning or 1) - 1
        every = range(_FIRST[stage], _FIRST[stage] + _COUNT[stage])
        few = inputs[0].shape[0] <= _GATHER_AT_MOST
        return [tactic for tactic in every if few or KERNELS[tactic] not in _GATHERED]

    def forward(
        self,
        inputs: list[torch.Tensor],
        tactic: int = -1,
        do_preparation: bool = False,
        *,
        gemm_idx: int = 1,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Run one stage alone on ``inputs`` (x, w13, w2), with routing made up for their token count."""
        x, w13, w2 = inputs
        ids, scales = _made_up_routing(x.shape[0], self.top_k, w13.shape[0])
        if gemm_idx == 1:
            return run_stage(1, tactic, x, w13, ids)
        hidden = _made_up_hidden(x.shape[0], self.top_k, w2.shape[2], x.dtype)
        return run_stage(2, tactic, hidden, w2, ids, scales)

    @classmethod
    @functools.cache
    def refine_tuning_config(cls, tune_max_num_tokens: int) -> None:
        """Cap the buckets of the whole class; a value seen before changes nothing, as upstream."""
        cls.tuning_config = _config(tune_max_num_tokens)


class StrongKeyCpuMoERunner(CpuMoERunner):
    """The same with a key that says what shapes do not."""

    def get_cache_key_extras(self, inputs: list[torch.Tensor]) -> tuple[Any, ...]:
        """Dtypes, top-k and activation."""
        return (self.x_dtype, self.weight_dtype, self.top_k, self.activation)


# Persisted keys carry the class name; both kinds answer to one.
StrongKeyCpuMoERunner.__name__ = StrongKeyCpuMoERunner.__qualname__ = CpuMoERunner.__name__


def runner_class() -> type[CpuMoERunner]:
    """The class that ``TUNELAUNCH_CPU_HOST_KEYS`` asks for."""
    return CpuMoERunner if os.environ.get("TUNELAUNCH_CPU_HOST_KEYS") == "weak" else StrongKeyCpuMoERunner


def fused_moe(
    x: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    ids: torch.Tensor,
    scales: torch.Tensor,
    *,
    activation: str = "silu",
) -> torch.Tensor:
    """The layer: one lookup a stage in FlashInfer's AutoTuner, then what it chose. Shapes as in ``moe_kernels``."""
    tuner, kind = AutoTuner.get(), runner_class()
    kind.refine_tuning_config(_next_power_of_2(x.shape[0]))
    runner = kind(x.dtype, w13.dtype, ids.shape[1], activation)
    inputs = [x, w13, w2]
    chosen = []
    for stage in (1, 2):
        runner.gemm_idx_for_tuning = stage
        _, tactic = tuner.choose_one(OPS[stage - 1], [runner], kind.tuning_config, inputs, gemm_idx=stage)
        chosen.append(tactic)
    for op, tactic in zip(OPS, chosen, strict=True):
        LEDGER.add_call(op, tactic, tokens=x.shape[0], tuning=bool(tuner.is_tuning_mode))
    # Rows that only pad a batch carry expert -1: no expert answers them.
    scales = scales.float().masked_fill(ids < 0, 0.0)
    ids = ids.clamp(min=0).to(torch.int64)
    hidden = run_stage(1, chosen[0], x, w13, ids)
    return run_stage(2, chosen[1], hidden, w2, ids, scales)


def run_stage(stage: int, tactic: int, *tensors: torch.Tensor) -> torch.Tensor:
    """Run a stage by tactic id (-1: its default), spoiled where a test asked for that."""
    wanted = _FIRST[stage - 1] if tactic == -1 else tactic
    if not _FIRST[stage - 1] <= wanted < _FIRST[stage - 1] + _COUNT[stage - 1]:
        raise ValueError(f"stage {stage} has no tactic {tactic}")
    out = KERNELS[wanted](*tensors)
    how = _broken().get((OPS[stage - 1], tactic))
    return out if how is None else _spoiled(out, how)


def _spoiled(out: torch.Tensor, how: str) -> torch.Tensor:
    if how == "nan" or (how == "nan24" and out.shape[0] > 16):
        return torch.full_like(out, float("nan"))
    if how == "scale":
        return out * 1.5
    if how == "tail":
        out[-1] = 0
    elif how == "slow" and not is_in_profile_measurement():
        time.sleep(0.005)
    elif how == "raise":
        raise RuntimeError("TUNELAUNCH_CPU_HOST_BROKEN asked for this failure")
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return out


@functools.cache
def _broken() -> dict[tuple[str, int], str]:
    """{(op, tactic): how} from the environment, read once."""
    found = {}
    for item in filter(None, os.environ.get("TUNELAUNCH_CPU_HOST_BROKEN", "").split(",")):
        op, _, rest = item.strip().partition("=")
        tactic, _, how = rest.partition(":")
        if op not in OPS or how not in {"nan", "nan24", "scale", "tail", "slow", "raise", "kill"}:
            raise ValueError(f"TUNELAUNCH_CPU_HOST_BROKEN: cannot read {item!r}; want <op>=<tactic>:<how>")
        found[op, int(tactic)] = how
    return found


@functools.lru_cache(maxsize=64)
def _made_up_routing(tokens: int, top_k: int, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(tokens)
    ids = torch.rand(tokens, experts, generator=generator).topk(top_k, dim=1).indices
    return ids, torch.full((tokens, top_k), 1.0 / top_k)


@functools.lru_cache(maxsize=8)
def _made_up_hidden(tokens: int, top_k: int, inter: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(tokens, top_k, inter, generator=torch.Generator().manual_seed(tokens)).to(dtype)


def _next_power_of_2(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()

"""What stands in for SGLang's model runner in the rank harness: a model, its runner and a runner whose keys carry ranks.

Stand-ins are named so. The layer's arithmetic and its lookups in FlashInfer's AutoTuner are the real ones of
:mod:`tunelaunch.demo.moe_runner`; the class is called ``FusedMoE`` because tunelaunch knows SGLang's layers by that name.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from tunelaunch.demo import moe_runner


class StandInTopK(NamedTuple):
    """The fields of SGLang's standard top-k output."""

    topk_weights: torch.Tensor
    topk_ids: torch.Tensor
    router_logits: torch.Tensor


class FusedMoE(torch.nn.Module):
    """Stand-in for SGLang's layer of this name: experts only, no communication."""

    reduce_results = False

    def __init__(self, *, experts: int, top_k: int, hidden: int, inter: int, dtype: torch.dtype, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.num_experts, self.top_k = experts, top_k
        w13 = torch.randn(experts, 2 * inter, hidden, generator=draw) / hidden**0.5
        w2 = torch.randn(experts, hidden, inter, generator=draw) / inter**0.5
        self.w13_weight = torch.nn.Parameter(w13.to(dtype), requires_grad=False)
        self.w2_weight = torch.nn.Parameter(w2.to(dtype), requires_grad=False)

    def forward(self, hidden_states: torch.Tensor, topk_output: StandInTopK) -> torch.Tensor:
        return moe_runner.fused_moe(
            hidden_states, self.w13_weight, self.w2_weight, topk_output.topk_ids, topk_output.topk_weights
        )


class StandInModel(torch.nn.Module):
    """MoE layers one after the other, each with a dtype and a top-k of its own."""

    def __init__(self, layers: list[dict[str, Any]], rank: int) -> None:
        super().__init__()
        made = []
        for number, given in enumerate(layers):
            shape = {"experts": 4, "top_k": 2, "hidden": 32, "inter": 16, "dtype": "float32", **given}
            shape["dtype"] = getattr(torch, shape["dtype"])
            made.append(FusedMoE(**shape, seed=100 * rank + number))
        self.layers = torch.nn.ModuleList(made)

    def forward(self, tokens: int) -> list[torch.Tensor]:
        """Every layer's output for ``tokens`` drawn tokens."""
        return [layer(*inputs_for(layer, tokens)) for layer in self.layers]


def inputs_for(layer: FusedMoE, tokens: int) -> tuple[torch.Tensor, StandInTopK]:
    """Inputs of one layer, the same at each call."""
    draw = torch.Generator().manual_seed(tokens)
    hidden = layer.w2_weight.shape[1]
    x = torch.randn(tokens, hidden, generator=draw).to(layer.w13_weight.dtype)
    logits = torch.rand(tokens, layer.num_experts, generator=draw)
    ids = logits.topk(layer.top_k, dim=1).indices.to(torch.int32)
    weights = torch.rand(tokens, layer.top_k, generator=draw) + 0.1
    return x, StandInTopK(weights / weights.sum(dim=1, keepdim=True), ids, logits)


def reference(layer: FusedMoE, tokens: int) -> torch.Tensor:
    """The layer's output by each stage's default kernel, without FlashInfer."""
    x, (weights, ids, _) = inputs_for(layer, tokens)
    ids = ids.to(torch.int64)
    hidden = moe_runner.GEMM1[0](x, layer.w13_weight, ids)
    return moe_runner.GEMM2[0](hidden, layer.w2_weight, ids, weights.float())


def stand_in_model_runner(spec: dict[str, Any], tp_group: Any) -> Any:
    """The attributes of SGLang's model runner that the autotune context and tunelaunch read, in all releases at once."""
    rank, world = spec["rank"], spec["world"]
    module = torch.get_device_module("cpu")
    return SimpleNamespace(
        device="cpu",
        dtype=torch.float32,
        gpu_id=0,
        model=StandInModel(spec.get("layers") or [{}], rank),
        model_config=SimpleNamespace(quantization=None, hf_config=SimpleNamespace()),
        server_args=SimpleNamespace(
            model_path=spec.get("model_path", "stand-in"), quantization=None, moe_runner_backend="flashinfer_cutlass",
            moe_a2a_backend="none", chunked_prefill_size=None, max_prefill_tokens=None, enable_dp_attention=False,
            dp_size=1, tp_size=world, pp_size=1, disable_flashinfer_autotune=False, flashinfer_autotune_skip_ops=None,
        ),
        spec_algorithm=SimpleNamespace(is_speculative=lambda: False),
        ps=SimpleNamespace(
            tp_rank=rank, pp_rank=0, dp_rank=None, tp_size=world, pp_size=1, attn_dp_size=1, moe_ep_size=1
        ),
        tp_group=tp_group,
        is_draft_worker=False,
        forward_stream=module.current_stream(),
        max_total_num_tokens=spec.get("cap", 64),
        max_running_requests=8,
    )  # fmt: skip


class RankKeyRunner(moe_runner.StrongKeyCpuMoERunner):
    """A runner whose key carries the rank, as CUTLASS MoE in FlashInfer 0.6.18 to 0.7.1."""

    rank_of_process = 0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tp_rank = self.rank_of_process

    def get_cache_key_extras(self, inputs: list[torch.Tensor]) -> tuple[Any, ...]:
        """Dtypes, top-k, activation, and the rank."""
        return (*super().get_cache_key_extras(inputs), self.tp_rank)


RankKeyRunner.__name__ = RankKeyRunner.__qualname__ = moe_runner.CpuMoERunner.__name__


def use_rank_keys(rank: int) -> None:
    """Make the layer use :class:`RankKeyRunner` in this process."""
    RankKeyRunner.rank_of_process = rank
    moe_runner.runner_class = lambda: RankKeyRunner

"""Implementations of one mixture-of-experts layer in plain torch: four a stage, all of them right.

They are what the tactics of :mod:`tunelaunch.demo.moe_runner` mean. Each pair computes the same numbers up to the
rounding of the dtype in a truly different way, with other costs at other token counts, so that timing them, choosing
one and checking one against another are all real.

Shapes: ``x`` [T, H] tokens; ``w13`` [E, 2I, H] gate and up projections; ``w2`` [E, H, I]; ``ids`` [T, K] int64 experts
of each token; ``scales`` [T, K] float32 router weights. Stage 1 gives [T, K, I], stage 2 gives [T, H], in ``x.dtype``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

Stage1 = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
Stage2 = Callable[["Tensor", "Tensor", "Tensor", "Tensor"], "Tensor"]


def silu_and_mul(gate_up: Tensor) -> Tensor:
    """[..., 2I] to [..., I]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def gemm1_loop(x: Tensor, w13: Tensor, ids: Tensor) -> Tensor:
    """Expert by expert: select its tokens, multiply, put back. The default."""
    flat = ids.reshape(-1)
    out = x.new_empty(flat.numel(), w13.shape[1] // 2)
    for expert in range(w13.shape[0]):
        rows = (flat == expert).nonzero().squeeze(1)
        if rows.numel():
            tokens = x.index_select(0, rows // ids.shape[1])
            out[rows] = silu_and_mul(functional.linear(tokens, w13[expert]))
    return out.view(*ids.shape, -1)


def gemm1_sorted(x: Tensor, w13: Tensor, ids: Tensor) -> Tensor:
    """Sort the rows by expert once, multiply contiguous slices, undo the sort."""
    order, counts = _by_expert(ids, w13.shape[0])
    slices = x.index_select(0, order // ids.shape[1]).split(counts)
    parts = [functional.linear(part, w13[expert]) for expert, part in enumerate(slices) if part.shape[0]]
    return _unsorted(silu_and_mul(torch.cat(parts)), order).view(*ids.shape, -1)


def gemm1_gathered(x: Tensor, w13: Tensor, ids: Tensor) -> Tensor:
    """Copy each token's expert weights and run one batched product: cheap for a few tokens only."""
    tokens = x.unsqueeze(1).expand(-1, ids.shape[1], -1).reshape(-1, x.shape[1], 1)
    return silu_and_mul(torch.bmm(w13[ids.reshape(-1)], tokens).squeeze(2)).view(*ids.shape, -1)


def gemm1_dense(x: Tensor, w13: Tensor, ids: Tensor) -> Tensor:
    """Every expert for every token in one product, then pick: wasteful, but one large product."""
    every = functional.linear(x, w13.reshape(-1, x.shape[1])).view(x.shape[0], *w13.shape[:2])
    return silu_and_mul(every.gather(1, ids.unsqueeze(2).expand(-1, -1, w13.shape[1])))


def gemm2_loop(hidden: Tensor, w2: Tensor, ids: Tensor, scales: Tensor) -> Tensor:
    """Expert by expert, added up in float32 where the tokens are. The default."""
    flat, rows_in = ids.reshape(-1), hidden.reshape(-1, hidden.shape[2])
    out = torch.zeros(ids.shape[0], w2.shape[1], dtype=torch.float32)
    for expert in range(w2.shape[0]):
        rows = (flat == expert).nonzero().squeeze(1)
        if rows.numel():
            part = functional.linear(rows_in.index_select(0, rows), w2[expert]).float()
            out.index_add_(0, rows // ids.shape[1], part * scales.reshape(-1, 1)[rows])
    return out.to(hidden.dtype)


def gemm2_sorted(hidden: Tensor, w2: Tensor, ids: Tensor, scales: Tensor) -> Tensor:
    """Contiguous slices, sort undone, one weighted sum over the token's experts."""
    order, counts = _by_expert(ids, w2.shape[0])
    slices = hidden.reshape(-1, hidden.shape[2]).index_select(0, order).split(counts)
    parts = [functional.linear(part, w2[expert]) for expert, part in enumerate(slices) if part.shape[0]]
    return _weighted_sum(_unsorted(torch.cat(parts), order), ids, scales)


def gemm2_gathered(hidden: Tensor, w2: Tensor, ids: Tensor, scales: Tensor) -> Tensor:
    """Copy each row's expert weights and run one batched product."""
    rows = torch.bmm(w2[ids.reshape(-1)], hidden.reshape(-1, hidden.shape[2], 1)).squeeze(2)
    return _weighted_sum(rows, ids, scales)


def gemm2_dense(hidden: Tensor, w2: Tensor, ids: Tensor, scales: Tensor) -> Tensor:
    """Scatter the scaled rows into [T, E, I] and contract experts and width in one product."""
    scaled = (hidden.float() * scales.unsqueeze(2)).to(hidden.dtype)
    spread = hidden.new_zeros(ids.shape[0], w2.shape[0], w2.shape[2])
    spread.scatter_add_(1, ids.unsqueeze(2).expand_as(scaled), scaled)
    return torch.einsum("tei,ehi->th", spread, w2)


GEMM1: tuple[Stage1, ...] = (gemm1_loop, gemm1_sorted, gemm1_gathered, gemm1_dense)
GEMM2: tuple[Stage2, ...] = (gemm2_loop, gemm2_sorted, gemm2_gathered, gemm2_dense)


def _by_expert(ids: Tensor, experts: int) -> tuple[Tensor, list[int]]:
    flat = ids.reshape(-1)
    return flat.argsort(stable=True), torch.bincount(flat, minlength=experts).tolist()


def _unsorted(rows: Tensor, order: Tensor) -> Tensor:
    out = torch.empty_like(rows)
    out[order] = rows
    return out


def _weighted_sum(rows: Tensor, ids: Tensor, scales: Tensor) -> Tensor:
    weighted = rows.view(*ids.shape, -1).float() * scales.unsqueeze(2)
    return weighted.sum(1).to(rows.dtype)

"""Stored choices beside FlashInfer's own picks and the best of all pairs: speed over default, interleaved, in one run.

    python benchmarks/choices.py TABLE.json --out FIGURES.json [--rounds 9]

Runs FlashInfer's CUTLASS MoE op alone (Qwen3-30B-A3B shapes, bf16, random balanced routing) at every bucket of a table
that ``gpu_cycle.py`` made, with every pair of tactics of its two stages, default included. Needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch
from flashinfer.fused_moe import cutlass_fused_moe

from tunelaunch.hosts.layers import Layer
from tunelaunch.ranks.cases import Case
from tunelaunch.ranks.decide import Combo
from tunelaunch.ranks.trial import sample

HIDDEN, INNER, EXPERTS, TOP_K = 2048, 768, 128, 8
OPS = ("trtllm::fused_moe::gemm1", "trtllm::fused_moe::gemm2")


class Op(torch.nn.Module):
    """The op as a layer: hidden states and routing in, output out."""

    def __init__(self) -> None:
        super().__init__()
        self.num_experts = EXPERTS
        make = {"dtype": torch.bfloat16, "device": "cuda"}
        self.w13 = torch.nn.Parameter(torch.randn(EXPERTS, 2 * INNER, HIDDEN, **make) * 0.02, requires_grad=False)
        self.w2 = torch.nn.Parameter(torch.randn(EXPERTS, HIDDEN, INNER, **make) * 0.02, requires_grad=False)

    def forward(self, hidden: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return cutlass_fused_moe(
            hidden, ids, weights, self.w13, self.w2, torch.bfloat16, quant_scales=[], tune_max_num_tokens=8192
        )[0]


class Fixed(Layer):
    """Inputs with distinct experts for each token."""

    def inputs(self, tokens: int, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
        generator = torch.Generator("cuda").manual_seed(seed + tokens)
        hidden = torch.randn(tokens, HIDDEN, generator=generator, device="cuda").bfloat16()
        ids = torch.rand(tokens, EXPERTS, generator=generator, device="cuda").topk(TOP_K).indices.int()
        weights = torch.rand(tokens, TOP_K, generator=generator, device="cuda")
        return [hidden, ids, weights / weights.sum(1, keepdim=True)], {}


def combo(one: int, two: int) -> Combo:
    return tuple((op, None, t) for op, t in zip(OPS, (one, two), strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    rows = json.loads(args.table.read_text())["rows"]
    stored: dict[int, dict[str, int]] = {}
    picks: dict[int, dict[str, int]] = {}
    for row in rows:
        tokens = row["evidence"]["tokens"]
        stored.setdefault(tokens, {})[row["op"]] = row["value"][1]
        picks.setdefault(tokens, {})[row["op"]] = row["evidence"]["profile"]["best"][0]["tactic"]
    layer = Fixed("op", Op(), (), {}, 0, True)
    every = [combo(one, two) for one in range(-1, 11) for two in (-1, *range(11, 24))]
    figures = []
    with torch.inference_mode():
        for tokens in sorted(stored):
            case = Case("op", tokens, None, tuple((op, None, "") for op in OPS), tuple(every))
            found = sample(case, layer, args.rounds)
            base = found.times[0]

            def speed(choice: Combo, found: Any = found, base: Any = base) -> float:
                times = found.times[every.index(choice)]
                return statistics.median(d / t for d, t in zip(base, times, strict=True))

            of = {
                name: combo(*(source[tokens][op] for op in OPS))
                for name, source in (("stored", stored), ("picks", picks))
            }
            best = max(every, key=speed)
            figures.append(
                {
                    "tokens": tokens,
                    "default_us": round(statistics.median(base), 2),
                    "stored": round(speed(of["stored"]), 3),
                    "picks": round(speed(of["picks"]), 3),
                    "best": round(speed(best), 3),
                    "again": round(statistics.median(a / b for a, b in zip(base, found.twin, strict=True)), 3),
                    "stored_tactics": [t for *_, t in of["stored"]],
                    "best_tactics": [t for *_, t in best],
                }
            )
            print(figures[-1], flush=True)
            torch.cuda.empty_cache()
    args.out.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

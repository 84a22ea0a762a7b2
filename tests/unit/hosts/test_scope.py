"""What a weak key leaves out is in the scope; what has no meaning outside a process is not."""

from __future__ import annotations

import enum
from typing import Any

import torch

from tunelaunch.hosts.scope import scope_digest, scope_fields


class Activation(enum.IntEnum):
    SWIGLU = 3
    RELU2 = 4


class Runner:
    def __init__(self, **settings: Any) -> None:
        self.weight_dtype = torch.bfloat16
        self.top_k, self.tp_size, self.tp_rank, self.ep_rank = 8, 2, 0, 0
        self.activation_type = Activation.SWIGLU
        self.gemm_idx_for_tuning = 1
        self.fused_moe_runner = object()
        self._private_cache: dict[str, int] = {}
        vars(self).update(settings)


INPUTS = [torch.zeros(1, dtype=torch.bfloat16), None]


def digest(inputs: list[Any] = INPUTS, **settings: Any) -> str:
    return scope_digest(scope_fields(Runner(**settings), inputs))


def test_equal_runners_of_two_ranks_and_stages_share_a_scope() -> None:
    assert digest() == digest(tp_rank=1, ep_rank=3, gemm_idx_for_tuning=2, fused_moe_runner=object())


def test_each_setting_and_each_dtype_makes_another_scope() -> None:
    others = [
        digest(weight_dtype=torch.float8_e4m3fn),
        digest(top_k=6),
        digest(tp_size=4),
        digest(activation_type=Activation.RELU2),
        digest(inputs=[torch.zeros(1, dtype=torch.float8_e4m3fn), None]),
    ]
    assert len({digest(), *others}) == 6


def test_what_a_runner_class_took_from_its_function_counts() -> None:
    def make(layout: str) -> type:
        class Local:
            def forward(self) -> str:
                return layout

        return Local

    one, two = (scope_digest(scope_fields(make(layout)(), [])) for layout in ("8x4", "128x4"))
    assert one != two


def test_the_fields_are_plain_and_say_what_they_are() -> None:
    fields = scope_fields(Runner(), INPUTS)
    assert fields["settings"]["weight_dtype"] == "torch.bfloat16"
    assert fields["settings"]["activation_type"] == "Activation.SWIGLU"
    assert "fused_moe_runner" not in fields["settings"]
    assert fields["dtypes"] == ["torch.bfloat16", "NoneType"]

"""Every implementation of a stage computes the same layer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tunelaunch.demo.moe_kernels import GEMM1, GEMM2  # noqa: E402

EXPERTS, TOP_K, HIDDEN, INTER = 8, 2, 64, 48


def _layer(tokens, dtype):
    draw = torch.Generator().manual_seed(tokens)
    x = torch.randn(tokens, HIDDEN, generator=draw).to(dtype)
    w13 = (torch.randn(EXPERTS, 2 * INTER, HIDDEN, generator=draw) / HIDDEN**0.5).to(dtype)
    w2 = (torch.randn(EXPERTS, HIDDEN, INTER, generator=draw) / INTER**0.5).to(dtype)
    ids = torch.rand(tokens, EXPERTS, generator=draw).topk(TOP_K, dim=1).indices
    return x, w13, w2, ids, torch.rand(tokens, TOP_K, generator=draw)


def _reference(x, w13, w2, ids, scales):
    """The layer token by token in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token in range(x.shape[0]):
        for slot in range(ids.shape[1]):
            gate, up = (w13[ids[token, slot]].double() @ x[token].double()).chunk(2)
            row = w2[ids[token, slot]].double() @ (torch.nn.functional.silu(gate) * up)
            out[token] += scales[token, slot].double() * row
    return out


@pytest.mark.parametrize("tokens", [1, 2, 17])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_any_pair_of_implementations_gives_the_layer_up_to_rounding(tokens, dtype, tolerance):
    x, w13, w2, ids, scales = _layer(tokens, dtype)
    expected = _reference(x, w13, w2, ids, scales)
    for first in GEMM1:
        for second in GEMM2:
            out = second(first(x, w13, ids), w2, ids, scales)
            assert out.dtype == dtype
            error = (out.double() - expected).norm() / expected.norm()
            assert error < tolerance, (first.__name__, second.__name__)


def test_one_expert_may_take_all_tokens():
    x, w13, w2, _, scales = _layer(5, torch.float32)
    ids = torch.zeros(5, 1, dtype=torch.int64)
    outs = [second(first(x, w13, ids), w2, ids, scales[:, :1]) for first in GEMM1 for second in GEMM2]
    assert all(torch.allclose(out, outs[0], atol=1e-5) for out in outs)

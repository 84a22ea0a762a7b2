"""Running one of SGLang's layers again at another number of tokens, with inputs that resemble serving.

A tuning pass feeds every token the same id, so that all tokens take the same experts. For a trial the routing is drawn
anew: each token gets distinct experts, all equally likely, from a seed that is the same on every rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.errors import HostError
from tunelaunch.hosts import sglang as host


@dataclass
class Layer:
    """One layer and the call that a pass made of it. ``tokens`` is the first dimension of that call's first tensor."""

    name: str
    module: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    tokens: int
    moe: bool

    def inputs(self, tokens: int, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
        """Arguments for ``tokens`` tokens: activations drawn with the spread of the captured ones, routing balanced."""
        import torch

        device = next((v.device for v in [*self.args, *self.kwargs.values()] if isinstance(v, torch.Tensor)), "cpu")
        generator = torch.Generator(device=device).manual_seed(seed * 1_000_003 + tokens)
        args = [self._resized(value, tokens, generator) for value in self.args]
        return args, {name: self._resized(value, tokens, generator) for name, value in self.kwargs.items()}

    def run(self, inputs: tuple[list[Any], dict[str, Any]]) -> Any:
        """The layer's output for ``inputs`` (the first tensor where it returns several)."""
        output = self.module(*inputs[0], **inputs[1])
        return output if hasattr(output, "shape") else output[0]

    def _resized(self, value: Any, tokens: int, generator: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(value, tokens, generator)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            if {"topk_ids", "topk_weights"} <= set(value._fields):
                return self._routing(value, tokens, generator)
            return type(value)(*(self._resized(item, tokens, generator) for item in value))
        return value

    def _tensor(self, value: Any, tokens: int, generator: Any) -> Any:
        import torch

        if value.dim() == 0 or value.shape[0] != self.tokens:
            return value
        shape = (tokens, *value.shape[1:])
        if value.dtype.is_floating_point and value.element_size() > 1:
            spread = float(value.float().std()) if value.numel() > 1 else 1.0
            spread = spread if 1e-4 < spread < 1e4 else 1.0
            drawn = torch.randn(shape, generator=generator, device=generator.device) * spread
            return drawn.to(dtype=value.dtype, device=value.device)
        picked = torch.randint(0, self.tokens, (tokens,), generator=generator, device=generator.device).to(value.device)
        return value.view(torch.uint8)[picked].view(value.dtype) if value.element_size() == 1 else value[picked]

    def _routing(self, value: Any, tokens: int, generator: Any) -> Any:
        import torch

        ids, weights = value.topk_ids, value.topk_weights
        experts, top_k = host.number_of_experts(self.module), ids.shape[1]
        if experts < top_k:
            raise HostError(f"{self.name}: cannot draw {top_k} of {experts} experts; this layer is not tried.")
        where = generator.device
        drawn = torch.rand((tokens, experts), generator=generator, device=where).topk(top_k, dim=1).indices
        share = torch.rand((tokens, top_k), generator=generator, device=where) + 0.1
        total = float(weights.float().sum(dim=1).mean())
        share = share / share.sum(dim=1, keepdim=True) * (total if 1e-4 < total < 1e4 else 1.0)
        fresh = {
            "topk_ids": drawn.to(dtype=ids.dtype, device=ids.device),
            "topk_weights": share.to(dtype=weights.dtype, device=weights.device),
        }
        return type(value)(
            *(
                fresh.get(name, self._resized(item, tokens, generator))
                for name, item in zip(value._fields, value, strict=True)
            )
        )


@dataclass
class Capture:
    """Which layer is running, and the layers that called a tuned op (by module name)."""

    stack: list[tuple[str, Any, Any, Any]] = field(default_factory=list)
    layers: dict[str, Layer] = field(default_factory=dict)

    def owner(self) -> str | None:
        """The name of the layer that is running now, remembered with its arguments; ``None`` outside the model."""
        if not self.stack:
            return None
        name, module, args, kwargs = self.stack[-1]
        if name not in self.layers:
            tokens = _tokens([*args, *kwargs.values()])
            self.layers[name] = Layer(name, module, args, kwargs, tokens, host.is_moe_layer(module))
        return name


def _tokens(values: Sequence[Any]) -> int:
    return next((int(v.shape[0]) for v in values if hasattr(v, "shape") and len(v.shape) > 0), 0)


@contextlib.contextmanager
def capturing(model_runner: Any) -> Iterator[Capture]:
    """Follow the model's forward pass with torch's own module hooks, all removed at the end."""
    capture = Capture()
    handles = []

    def entering(name: str) -> Any:
        return lambda module, args, kwargs: capture.stack.append((name, module, args, kwargs))

    def leaving(module: Any, *_: Any) -> None:
        if capture.stack and capture.stack[-1][1] is module:
            capture.stack.pop()

    for name, module in host.named_modules(model_runner):
        handles.append(module.register_forward_pre_hook(entering(name), with_kwargs=True))
        handles.append(module.register_forward_hook(leaving, always_call=True))
    try:
        yield capture
    finally:
        for handle in handles:
            handle.remove()
        capture.stack.clear()


@contextlib.contextmanager
def on_forward_stream(model_runner: Any) -> Iterator[None]:
    """Where SGLang runs its own dummy forward passes: its forward stream, without autograd."""
    import torch

    stream = host.forward_stream(model_runner)
    module = torch.get_device_module(model_runner.device)
    with torch.inference_mode():
        if stream is None or not hasattr(module, "current_stream"):
            yield
            return
        if hasattr(stream, "wait_stream"):
            stream.wait_stream(module.current_stream())
        with module.stream(stream):
            yield
        if hasattr(module.current_stream(), "wait_stream"):
            module.current_stream().wait_stream(stream)

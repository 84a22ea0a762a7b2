"""A tiny mixture-of-experts model directory, made on the spot.

Guarantees: nothing is downloaded and neither torch's nor transformers' model classes are used, so a directory takes
well under a second and a few hundred kilobytes; the same arguments give the same bytes. The model is a Qwen3-MoE with
random weights and a byte-level tokenizer: it answers nonsense, but every layer of a served model is really there.
Weights have unit gain, so that the experts' output is as large as the residual stream and a wrong expert kernel changes
the answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VOCABULARY = 320
"""Ids: 0 to 2 special, 256 bytes, the rest unused names, so that every id that greedy sampling can pick decodes."""

_SPECIAL = ("<unk>", "<s>", "</s>")


def make_tiny_moe(
    directory: Path | str,
    *,
    seed: int = 0,
    dtype: str = "bfloat16",
    experts: int = 8,
    top_k: int = 2,
    hidden: int = 64,
    inter: int = 64,
    layers: int = 2,
) -> Path:
    """Write config, weights and tokenizer into ``directory`` (created if missing) and return it.

    ``hidden`` must be a multiple of 16 (four heads); ``inter`` is the width of one expert, and must be divisible by the
    tensor-parallel size that serves it. ``dtype`` is a torch floating-point name.
    """
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    write_config(
        path,
        config=moe_config(dtype=dtype, experts=experts, top_k=top_k, hidden=hidden, inter=inter, layers=layers),
    )
    _write_weights(path, seed=seed, dtype=dtype, experts=experts, hidden=hidden, inter=inter, layers=layers)
    return path


def moe_config(
    *,
    dtype: str,
    experts: int,
    top_k: int,
    hidden: int,
    inter: int,
    layers: int,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int | None = None,
) -> dict[str, Any]:
    """The ``config.json`` of a Qwen3-MoE of that shape."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        # Both spellings of each: transformers 5 renamed them, and older releases read the first one only.
        "torch_dtype": dtype,
        "dtype": dtype,
        "num_experts": experts,
        "num_local_experts": experts,
        "num_experts_per_tok": top_k,
        "moe_intermediate_size": inter,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "hidden_size": hidden,
        "intermediate_size": 2 * inter,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim or hidden // heads,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "vocab_size": VOCABULARY,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def write_config(path: Path, *, config: dict[str, Any]) -> None:
    """Write ``config.json``, ``generation_config.json`` and the tokenizer's files: all that dummy weights need."""
    _write_json(path / "config.json", config)
    _write_json(path / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "do_sample": False})
    _write_json(path / "tokenizer.json", _tokenizer())
    _write_json(
        path / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "</s>",
            "model_max_length": 2048,
            "chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}",
        },
    )


def _write_weights(path: Path, *, seed: int, dtype: str, experts: int, hidden: int, inter: int, layers: int) -> None:
    import torch
    from safetensors.torch import save_file  # type: ignore[import-not-found]

    torch_dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> torch.Tensor:
        return (torch.randn(rows, columns, generator=generator) * (gain / columns**0.5)).to(torch_dtype)

    def ones(size: int) -> torch.Tensor:
        return torch.ones(size, dtype=torch_dtype)

    head = hidden // 4
    weights = {
        "model.embed_tokens.weight": matrix(VOCABULARY, hidden, gain=hidden**0.5),
        "model.norm.weight": ones(hidden),
        "lm_head.weight": matrix(VOCABULARY, hidden, gain=4.0),
    }
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        weights |= {
            f"{prefix}.input_layernorm.weight": ones(hidden),
            f"{prefix}.post_attention_layernorm.weight": ones(hidden),
            f"{prefix}.self_attn.q_norm.weight": ones(head),
            f"{prefix}.self_attn.k_norm.weight": ones(head),
            f"{prefix}.self_attn.q_proj.weight": matrix(hidden, hidden),
            f"{prefix}.self_attn.k_proj.weight": matrix(hidden // 2, hidden),
            f"{prefix}.self_attn.v_proj.weight": matrix(hidden // 2, hidden),
            f"{prefix}.self_attn.o_proj.weight": matrix(hidden, hidden),
            f"{prefix}.mlp.gate.weight": matrix(experts, hidden),
        }
        for expert in range(experts):
            weights |= {
                f"{prefix}.mlp.experts.{expert}.gate_proj.weight": matrix(inter, hidden),
                f"{prefix}.mlp.experts.{expert}.up_proj.weight": matrix(inter, hidden),
                f"{prefix}.mlp.experts.{expert}.down_proj.weight": matrix(hidden, inter, gain=2.0),
            }
    save_file(weights, str(path / "model.safetensors"), metadata={"format": "pt"})


def _tokenizer() -> dict[str, Any]:
    """A byte-level BPE without merges: one token a byte."""
    names = [*_SPECIAL, *_byte_symbols()]
    names += [f"<unused{index}>" for index in range(VOCABULARY - len(names))]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": index,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for index, name in enumerate(_SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {name: index for index, name in enumerate(names)},
            "merges": [],
        },
    }


def _byte_symbols() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE: itself where it is printable Latin-1."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(shifted)) for byte in range(256)]


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

"""The tiny model directory: complete, reproducible, readable by the libraries that a server uses."""

from __future__ import annotations

import json

import pytest

from tunelaunch.demo.model import VOCABULARY, make_tiny_moe

pytest.importorskip("torch")


def test_the_same_arguments_give_the_same_bytes_and_another_seed_does_not(tmp_path):
    first, again = make_tiny_moe(tmp_path / "a"), make_tiny_moe(tmp_path / "b")
    other = make_tiny_moe(tmp_path / "c", seed=1)
    names = sorted(path.name for path in first.iterdir())
    assert "model.safetensors" in names
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in names)
    assert (first / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes()


def test_every_weight_has_the_shape_that_the_config_announces(tmp_path):
    from safetensors import safe_open

    made = make_tiny_moe(tmp_path, experts=4, top_k=1, hidden=32, inter=48, layers=3, dtype="float32")
    config = json.loads((made / "config.json").read_text())
    with safe_open(made / "model.safetensors", "pt") as weights:
        shapes = {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    assert shapes["model.embed_tokens.weight"] == (VOCABULARY, 32)
    experts = [name for name in shapes if ".experts." in name]
    assert len(experts) == config["num_hidden_layers"] * config["num_experts"] * 3
    assert {shapes[name] for name in experts} == {(48, 32), (32, 48)}


def test_the_tokenizer_takes_any_text_back_and_forth(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = make_tiny_moe(tmp_path)
    tokenizer = tokenizers.Tokenizer.from_file(str(made / "tokenizer.json"))
    text = "Two tokens: é, 你好\n\t."
    ids = tokenizer.encode(text).ids
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids) == text
    assert all(tokenizer.id_to_token(index) is not None for index in range(VOCABULARY))

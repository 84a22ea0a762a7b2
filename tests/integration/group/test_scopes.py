"""Keys that say too little (FlashInfer up to 0.6.17): rows of one scope never reach another, in one model or in two."""

from __future__ import annotations

import json

WEAK = {"TUNELAUNCH_CPU_HOST_KEYS": "weak"}
PAIRS = {"dtypes": ({"dtype": "float32"}, {"dtype": "bfloat16"}), "top-k": ({"top_k": 2}, {"top_k": 3})}


def _plant(root, scopes):
    """Give each scope's rows of stage 1 a tactic of its own; returns {scope: tactic}."""
    (table,) = root.glob("v1/*/*/table.json")
    body = json.loads(table.read_text())
    found = sorted({row["scope"] for row in body["rows"] if row["op"].endswith("gemm1")})
    assert len(found) == scopes
    for row in body["rows"]:
        if row["op"].endswith("gemm1"):
            row["value"][1] = 1 + found.index(row["scope"])
    table.write_text(json.dumps(body))


def test_two_models_whose_rows_share_keys_keep_to_their_own(nest, tmp_path):
    for name, (first, second) in PAIRS.items():
        place = tmp_path / name
        tuned = nest.start(place, name="first", env=WEAK, layers=[first])
        other = nest.start(place, name="second", env=WEAK, layers=[second])
        assert set(tuned.rows()[0]) == set(other.rows()[0])
        assert other.profiles() == tuned.profiles()
        _plant(place / "root", scopes=2)
        served = []
        for number, layer in enumerate((first, second)):
            again = nest.start(place, name=f"again-{number}", env=WEAK, layers=[layer])
            assert again.profiles() == [0, 0]
            served.append({one["tactics"][0] for rank in again.ranks for one in rank["served"].values()})
        assert sorted(map(tuple, served)) == [(1,), (2,)]


def test_two_layers_of_one_model_that_share_a_key_never_get_the_others_tactic(nest, tmp_path):
    layers = list(PAIRS["top-k"])
    cold = nest.start(tmp_path, name="cold", env=WEAK, layers=layers)
    assert cold.served()
    _plant(tmp_path / "root", scopes=2)
    warm = nest.start(tmp_path, name="warm", env=WEAK, layers=layers)
    assert warm.profiles() == [0, 0]
    for rank in warm.ranks:
        for served in rank["served"].values():
            assert served["tactics"][0] == served["tactics"][2] == -1

"""The environment's id: what decides, what is only recorded, what is unknown, and how a difference reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tunelaunch.device.environment import Environment, Value, differences, explain
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.identity import table_id
from tunelaunch.device.recorded import load_recorded, recorded
from tunelaunch.errors import IdentityError

DATA = Path(__file__).parents[2] / "data" / "devices.json"
PRO = recorded(DATA, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
VERSIONS: dict[str, Value] = {
    "flashinfer_version": "0.6.18",
    "cuda_version": "13.0",
    "cublas_version": "13.1.1",
    "cudnn_version": "92000",
    "cudnn_frontend_version": "1.14",
    "gpu": PRO.name,
}


def make(facts: DeviceFacts = PRO, packages: str = "p", tag: str = "", **versions: Value) -> Environment:
    return Environment.of(
        facts, flashinfer={**VERSIONS, **versions}, packages=packages, tag=tag, info={"sglang": "0.5.23"}
    )


def test_the_id_is_12_hex_and_does_not_depend_on_the_order_of_fields() -> None:
    environment = make()
    assert len(environment.id) == 12
    assert int(environment.id, 16) >= 0
    assert Environment(dict(reversed(list(environment.fields.items())))).id == environment.id
    assert not environment.unproven


@pytest.mark.parametrize(
    ("name", "value"),
    [("flashinfer_version", "0.6.18.post1"), ("cublas_version", "13.6.0"), ("cudnn_version", "92101"), ("new", "1")],
)
def test_every_field_of_flashinfer_decides(name: str, value: str) -> None:
    old = make()
    new = Environment({**old.fields, f"flashinfer.{name}": value})
    assert old.id != new.id
    (difference,) = differences(old, new)
    assert (difference.field, difference.decisive) == (f"flashinfer.{name}", True)


def test_another_build_of_the_same_version_or_another_tag_decides() -> None:
    assert len({make().id, make(packages="q").id, make(tag="canary").id}) == 3


def test_every_recorded_card_has_a_table_of_its_own() -> None:
    cards = load_recorded(DATA)
    tables = {table_id(card, make(card, gpu=card.name)) for card in cards}
    assert len(tables) == len(cards)
    assert len({t.environment for t in tables}) == len(cards)


def test_a_mig_slice_has_another_environment_than_its_card() -> None:
    assert make(replace(PRO, mig_profile="1g.24gb")).id != make().id


def test_driver_and_sglang_are_recorded_and_decide_nothing() -> None:
    other = make(replace(PRO, driver="590.1"))
    assert other.id == make().id
    (difference,) = differences(make(), other)
    assert (difference.field, difference.decisive) == ("info.driver", False)
    assert "without effect" in explain([difference])


@pytest.mark.parametrize("value", ["unknown", "None", "", "*", None])
def test_an_unknown_value_is_left_out_recorded_and_unproven(value: Value) -> None:
    environment = make(cudnn_version=value)
    assert environment.indeterminate == ("flashinfer.cudnn_version",)
    assert environment.unproven
    without = {name: v for name, v in environment.fields.items() if name != "flashinfer.cudnn_version"}
    assert environment.id == Environment(without).id != make().id


def test_missing_fields_are_unknown_and_absent_options_are_not() -> None:
    assert Environment({"gpu_name": "X"}).indeterminate == (
        "compute_capability",
        "flashinfer.flashinfer_version",
        "packages",
        "sm_count",
    )
    assert not {"tag", "mig_profile", "measurement_policy"} & set(make().indeterminate)


def test_a_number_and_its_text_are_the_same_value() -> None:
    fields = make().fields
    assert Environment({**fields, "sm_count": "188"}).id == make().id
    assert differences(make(), Environment({**fields, "sm_count": "188"})) == []


def test_two_kinds_of_unknown_do_not_differ() -> None:
    assert differences(make(cudnn_version=None), make(cudnn_version="unknown")) == []


def test_an_explanation_names_field_saved_and_current() -> None:
    text = explain(differences(make(), make(cudnn_version="92101", cublas_version=None)))
    assert "flashinfer.cudnn_version: saved 92000, current 92101" in text
    assert "flashinfer.cublas_version: saved 13.1.1, current unknown" in text
    assert explain([]) == "same environment: no field differs"


def test_json_brings_back_the_same_environment_and_ignores_a_forged_id() -> None:
    data = make().to_json()
    assert Environment.from_json({**data, "id": "0" * 12}).id == make().id
    assert Environment.from_json(data).to_json() == data
    assert Environment.from_json({"fields": [1]}).fields == {}


def test_a_device_without_a_name_has_no_table() -> None:
    with pytest.raises(IdentityError):
        table_id(DeviceFacts("unknown"), make(DeviceFacts("unknown")))

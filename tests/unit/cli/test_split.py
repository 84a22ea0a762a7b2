"""The split of one command line into tunelaunch's options and SGLang's arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunelaunch.cli.split import split
from tunelaunch.errors import UsageError
from tunelaunch.options import OPTIONS, Own, fill

OWN_TOKENS = {option.token for option in OPTIONS}


def is_foreign(token: str) -> bool:
    special = {"--retune", "-h", "--help", "--version", "--help-sglang", "--"}
    return token not in special and not token.startswith("--tunelaunch-")


foreign = st.text(alphabet=st.characters(blacklist_characters="\0"), max_size=12).filter(is_foreign)


@given(st.lists(foreign, max_size=8), st.lists(st.text(max_size=6), max_size=4))
def test_arguments_of_sglang_pass_unchanged_and_in_order(head: list[str], tail: list[str]) -> None:
    args = ["--model-path", *head, "--", *tail]
    assert split(args).sglang == args


@given(st.lists(foreign, max_size=6), st.data())
def test_own_options_are_taken_out_wherever_they_stand(args: list[str], data: st.DataObject) -> None:
    args = ["--model-path", *args]
    mixed = list(args)
    for own in (["--retune"], ["--tunelaunch-tag", "a b"], ["--tunelaunch-min-gain=4.5"]):
        # Never between an own option and its value: find a place where the token before is not one of ours.
        places = [i for i in range(len(mixed) + 1) if i == 0 or mixed[i - 1] != "--tunelaunch-tag"]
        at = data.draw(st.sampled_from(places))
        mixed[at:at] = own
    parts = split(mixed)
    assert parts.sglang == args
    assert parts.own == Own(retune=True, tag="a b", min_gain=4.5)


def test_abbreviations_repeats_and_values_with_a_dash_are_sglangs() -> None:
    args = [
        "--tp",
        "2",
        "--config",
        "f.yaml",
        "--lora-paths",
        "a",
        "--lora-paths",
        "b",
        "--x",
        "-1",
        "--ret",
        "--tune",
        "",
    ]
    assert split(args).sglang == args


def test_after_two_dashes_nothing_is_ours() -> None:
    parts = split(["--tp", "2", "--", "--retune", "--tunelaunch-nonsense", "--help"])
    assert parts.sglang == ["--tp", "2", "--", "--retune", "--tunelaunch-nonsense", "--help"]
    assert parts.own == Own()
    assert parts.action is None


def test_both_forms_of_every_option_with_a_value() -> None:
    values = {"cache": "/a b", "mode": "readonly", "min_gain": "2.5", "effort": "quick", "tag": "x=y", "verify": "all"}
    values |= {"max_error": "0.02,0.1", "remote": "s3://bucket/prefix"}
    for option in OPTIONS:
        if option.is_flag:
            continue
        value = values[option.field]
        spaced, joined = split([option.token, value]), split([f"{option.token}={value}"])
        assert spaced == joined
        assert str(getattr(spaced.own, option.field)) == value


def test_the_last_of_a_repeated_own_option_wins() -> None:
    assert split(["--tunelaunch-tag=a", "--tp", "1", "--tunelaunch-tag", "b"]).own.tag == "b"


def test_the_joined_form_takes_a_value_with_a_dash_and_an_empty_tag() -> None:
    assert split(["--tunelaunch-tag=-x"]).own.tag == "-x"
    assert split(["--tunelaunch-tag="]).own.tag == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--tunelaunch-cash", "/x"], "--tunelaunch-cache"),
        (["--tunelaunch-"], "--tunelaunch-cache"),
        (["--tunelaunch-cache"], "needs a value"),
        (["--tunelaunch-cache", "--tp"], "needs a value"),
        (["--tunelaunch-cache="], "empty"),
        (["--tunelaunch-mode", "fast"], "off, readonly, auto"),
        (["--tunelaunch-min-gain", "much"], "percent"),
        (["--tunelaunch-min-gain=nan"], "percent"),
        (["--tunelaunch-min-gain=-1"], "percent"),
        (["--tunelaunch-strict=1"], "takes no value"),
    ],
)
def test_a_wrong_own_option_is_a_usage_error_that_says_what_is_right(args: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        split(args)
    assert error.value.exit_code == 2


def test_a_first_argument_without_a_dash_is_a_command_and_the_rest_is_its_own() -> None:
    parts = split(["cache", "ls", "--format", "json", "--help", "--retune"])
    assert (parts.command, parts.command_args) == ("cache", ["ls", "--format", "json", "--help", "--retune"])


def test_own_options_may_stand_before_a_command() -> None:
    parts = split(["--tunelaunch-cache", "/x", "cache", "dir"])
    assert (parts.own.cache, parts.command, parts.command_args) == ("/x", "cache", ["dir"])


def test_a_word_after_a_sglang_option_is_no_command() -> None:
    assert split(["--model-path", "cache"]).command is None


@pytest.mark.parametrize(("token", "action"), [("-h", "help"), ("--help", "help"), ("--version", "version")])
def test_questions_about_the_program(token: str, action: str) -> None:
    assert split(["--tp", "2", token]).action == action


def test_variables_fill_what_the_command_line_leaves_open() -> None:
    environ = {
        "TUNELAUNCH_RETUNE": "1",
        "TUNELAUNCH_MODE": "readonly",
        "TUNELAUNCH_STRICT": "0",
        "TUNELAUNCH_TAG": "env",
        "TUNELAUNCH_MIN_GAIN": "7",
    }
    own, ignored = fill(Own(tag="line"), environ)
    assert own == Own(True, None, "readonly", False, 7.0, "normal", "line", "new", "", "")
    assert ignored == ()


def test_a_wrong_variable_is_named_and_ignored() -> None:
    own, ignored = fill(Own(), {"TUNELAUNCH_MODE": "fast", "TUNELAUNCH_MIN_GAIN": "x", "TUNELAUNCH_VERIFY": ""})
    assert (own.mode, own.min_gain, own.verify) == ("auto", 3.0, "new")
    assert [line.split()[0] for line in ignored] == ["TUNELAUNCH_MODE", "TUNELAUNCH_MIN_GAIN"]

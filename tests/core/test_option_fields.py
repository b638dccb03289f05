"""Fields of options: limits, choices, earlier names, and records made from one another."""

import argparse
from dataclasses import dataclass

import pytest

from napari_kpac.cli.common import add_options, given_options
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import check_values, number, option, rename_aliases, select_options


@dataclass(frozen=True)
class Small:
    """A record for the tests."""

    side: int = number(4, "side", 1, 9, aliases=("edge", "width"))
    share: float = number(0.5, "share", 0, 1)
    steps: int = number(1, "steps", 1)
    bits: int = option(8, "bits", int, choices=(8, 16))
    size: int | None = option(None, "size", int, limits=(16, 32))
    flip: bool = option(False, "flip", aliases=("mirror",))
    folders: tuple[str, ...] = option((), "folders", many=True, aliases=("roots",))
    hidden: int = 3

    def __post_init__(self):
        check_values(self)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"side": 0}, r"side=0: must lie in 1\.\.9"),
        ({"side": 10}, r"side=10: must lie in 1\.\.9"),
        ({"side": True}, "side=True"),
        ({"side": "4"}, "side='4'"),
        ({"share": float("nan")}, "share=nan"),
        ({"steps": 0}, r"steps=0: must lie in 1\.\.inf"),
        ({"bits": 12}, "bits=12: must be one of 8, 16"),
        ({"size": 8}, r"size=8: must lie in 16\.\.32"),
    ],
)
def test_values_out_of_range_are_refused_by_name(changes, words):
    with pytest.raises(ConfigError, match=words):
        Small(**changes)


def test_values_at_the_limits_and_none_are_allowed():
    assert Small(side=1, share=1, steps=10**12, size=None).side == 1
    assert Small(side=9, share=0, size=32, bits=16).size == 32


def test_earlier_names_become_those_of_today():
    assert rename_aliases(Small, {"edge": 2, "mirror": True, "other": 1}) == {
        "side": 2,
        "flip": True,
        "other": 1,
    }
    for twice in ({"edge": 2, "side": 3}, {"side": 3, "width": 2}, {"edge": 2, "width": 2}):
        with pytest.raises(ConfigError, match="side is given twice"):
            rename_aliases(Small, twice)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (["--side", "2"], {"side": 2}),
        (["--edge", "2"], {"side": 2}),
        (["--width=2"], {"side": 2}),
        (["--edge", "2", "--side", "3"], {"side": 3}),
        (["--mirror"], {"flip": True}),
        (["--flip", "--no-mirror"], {"flip": False}),
        (["--roots", "a", "--folders", "b"], {"folders": ("a", "b")}),
        ([], {}),
    ],
)
def test_flags_of_before_are_taken(call, wanted):
    parser = argparse.ArgumentParser()
    add_options(parser, Small)
    assert given_options(parser.parse_args(call), Small) == wanted
    assert not any(word in parser.format_help() for word in ("edge", "width", "mirror", "roots"))


def test_a_record_is_made_of_the_fields_that_it_shares():
    @dataclass(frozen=True)
    class Other:
        side: int = 7
        share: float = 0.1
        colour: str = "red"

    assert select_options(Other, Small(side=2)) == Other(side=2, share=0.5)
    assert select_options(Other, Small(side=2), share=0.9, colour="blue") == Other(2, 0.9, "blue")

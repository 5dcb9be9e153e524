"""Launch options: translated for the compiler at hand, or an error; never ignored."""

import pytest

from xesmith.lowering.options import OptionError, build_flags, grf_mode, normalise, reported

# Defaults as triton-xpu 3.3.0b1 and a later build state them, cut down.
OLD = {
    "num_warps": 4,
    "num_stages": 2,
    "threads_per_warp": 32,
    "grf_mode": ("small", "large", "auto", "default"),
}
NEW = {"num_warps": 4, "num_stages": 2, "warp_size": 32, "grf_mode": "default"}


@pytest.mark.parametrize(
    ("given", "name", "old", "new"),
    [
        ("128", "128", "small", "128"),
        ("256", "256", "large", "256"),
        (256, "256", "large", "256"),
        ("small", "128", "small", "128"),
        ("large", "256", "large", "256"),
        ("auto", "auto", "auto", "auto"),
        ("default", "default", "default", "default"),
    ],
)
def test_a_grf_mode_is_spelled_for_each_compiler(given, name, old, new):
    assert normalise({"grf_mode": given}, OLD).compiler == {"grf_mode": old}
    assert normalise({"grf_mode": given}, NEW).compiler == {"grf_mode": new}
    assert normalise({"grf_mode": given}, OLD).given == {"grf_mode": name}


def test_512_registers_would_be_ignored_by_the_old_compiler():
    assert normalise({"grf_mode": "512"}, NEW).compiler == {"grf_mode": "512"}
    with pytest.raises(OptionError, match="would ignore grf_mode '512'"):
        normalise({"grf_mode": "512"}, OLD)


def test_an_unknown_grf_mode_names_the_known_ones():
    with pytest.raises(OptionError, match=r"'huge' does not exist; known: .*256"):
        grf_mode("huge")


@pytest.mark.parametrize("spelling", ["warp_size", "threads_per_warp"])
def test_both_spellings_of_the_sub_group_size_are_served(spelling):
    assert normalise({spelling: 16}, OLD).compiler == {"threads_per_warp": 16}
    assert normalise({spelling: 16}, NEW).compiler == {"warp_size": 16}
    assert normalise({spelling: 16}, NEW).given == {"threads_per_warp": 16}


def test_contradicting_spellings_are_an_error():
    with pytest.raises(OptionError, match="contradict"):
        normalise({"threads_per_warp": 32, "warp_size": 16}, OLD)


def test_an_unknown_option_is_an_error_with_the_nearest_name():
    with pytest.raises(OptionError, match="no launch option 'num_wraps'; did you mean 'num_warps'"):
        normalise({"num_wraps": 8}, OLD)


def test_defaults_are_reported_beside_what_was_given():
    assert reported({"grf_mode": "256"}, OLD) == {
        "num_warps": 4,
        "num_stages": 2,
        "grf_mode": "256",
    }
    assert reported({}, OLD)["grf_mode"] == "default"


def test_build_flags_are_the_drivers():
    assert build_flags("256") == "-cl-intel-256-GRF-per-thread"
    assert build_flags("auto") == "-cl-intel-enable-auto-large-GRF-mode"
    assert build_flags("default") == ""

"""Reading, printing, comparing and shipping programs."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import tilt as tl

TREND = """
query trend unit s {
  input ~stock: f64 point                      // a price at each instant of a trade

  ~sum10[t] = reduce sum ~stock[t-10s : t]
  ~sum20[t] = reduce sum ~stock[t-20s : t]
  ~join[t] = ~sum10[t] / 10.0 - ~sum20[t] / 20.0
  ~filter[t] = if ~join[t] > 0.0 then ~join[t] else null

  output ~filter
}
"""


@pytest.fixture
def trend() -> tl.Program:
    return tl.Program.parse(TREND)


def test_program_knows_its_name_inputs_and_output(trend: tl.Program) -> None:
    assert trend.name == "trend"
    assert trend.inputs == {"stock": "f64"}
    assert trend.output == ("filter", "f64")
    assert repr(trend) == "<tilt.Program trend(~stock: f64) -> ~filter: f64>"


def test_text_is_read_back_to_the_same_program(trend: tl.Program) -> None:
    text = str(trend)
    again = tl.Program.parse(text)
    assert again == trend
    assert hash(again) == hash(trend)
    assert str(again) == text


def test_programs_with_another_text_differ(trend: tl.Program) -> None:
    assert trend != tl.Program.parse(TREND.replace("10.0", "11.0"))
    assert trend != TREND


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_round_trip(trend: tl.Program, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(trend, protocol)) == trend


def test_programs_are_immutable_and_only_parsed(trend: tl.Program) -> None:
    with pytest.raises(AttributeError):
        trend.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError, match="parse"):
        tl.Program()


def test_parsing_in_many_threads_gives_the_same_program(trend: tl.Program) -> None:
    with ThreadPoolExecutor(8) as pool:
        for program in pool.map(tl.Program.parse, [TREND] * 400):
            assert program == trend


def test_lineage_is_text_by_input(trend: tl.Program) -> None:
    assert trend.lineage() == {"stock": ("20s", "0s")}


def test_lineage_names_only_inputs_that_matter_and_says_unbounded() -> None:
    program = tl.Program.parse("""
        query total unit s {
          input ~x: f64 point
          input ~unused: f64 point
          ~total[t] = reduce sum ~x[-inf : t]
          output ~total
        }
    """)
    lookback, lookahead = program.lineage()["x"]
    assert (lookback, lookahead) == ("unbounded", "0s")
    assert list(program.lineage()) == ["x"]


def test_optimized_program_is_smaller_with_the_same_interface_and_reach(trend: tl.Program) -> None:
    before = str(trend)
    fused = trend.optimize()
    assert isinstance(fused, tl.Program)
    assert str(fused).count("[t] =") == 1
    assert str(trend) == before
    assert (fused.inputs, fused.output, fused.lineage()) == (trend.inputs, trend.output, trend.lineage())
    assert fused.optimize() == fused
    assert pickle.loads(pickle.dumps(fused)) == fused

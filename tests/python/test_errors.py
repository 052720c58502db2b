"""What users see when something is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilt as tl
from tilt import _native


def test_parse_error_points_at_the_place_with_a_caret() -> None:
    line = "  ~y[t] = ~x[t] * * 2.0"
    with pytest.raises(tl.QueryError) as error:
        tl.Program.parse(f"query broken unit s {{\n  input ~x: f64 point\n{line}\n  output ~y\n}}\n")
    headline, source, mark = str(error.value).splitlines()
    assert headline.startswith(f"error at 3:{line.rindex('*') + 1}: expected ")
    assert source.endswith(line)
    assert mark.index("^") == source.rindex("*")


def test_everything_the_verifier_finds_is_in_one_message() -> None:
    with pytest.raises(tl.QueryError) as error:
        tl.Program.parse("""
            query q unit s {
              input ~x: f64 point
              ~a[t] = reduce sum ~x[t : t-1s]
              ~b[t] = reduce quantile(2.0) ~x[t-1s : t]
              output ~b
            }
        """)
    assert "~a" in str(error.value)
    assert "~b" in str(error.value)


@settings(derandomize=True)
@given(
    st.lists(st.sampled_from([*"~[]{}():=+-*#.,t", " ", "query", "unit", "s", "input", "x", "f64", "point", "1", "🕰"]))
)
def test_no_text_crashes_the_parser(words: list[str]) -> None:
    with pytest.raises(tl.QueryError):
        tl.Program.parse(" ".join(words))


@pytest.mark.parametrize("text", ["", "query", "\0", "query q unit s { output ~nothing }", "φ" * 10, "🕰"])
def test_bad_text_raises_query_error(text: str) -> None:
    with pytest.raises(tl.QueryError):
        tl.Program.parse(text)


def test_nesting_too_deep_raises_instead_of_overflowing_the_stack() -> None:
    deep = "(" * 100_000 + "1.0" + ")" * 100_000
    with pytest.raises(tl.QueryError):
        tl.Program.parse(f"query deep unit s {{ input ~x: f64 point ~y[t] = ~x[t] + {deep} output ~y }}")


def test_every_error_is_a_tilt_error() -> None:
    assert issubclass(tl.QueryError, tl.TiltError)
    assert issubclass(tl.InternalError, tl.TiltError)
    assert not issubclass(tl.QueryError, tl.InternalError)


def test_panic_becomes_internal_error() -> None:
    panic = getattr(_native, "panic", None)
    if panic is None:
        pytest.skip("only debug builds can be asked to panic")
    with pytest.raises(tl.InternalError, match="asked to panic"):
        panic("asked to panic")

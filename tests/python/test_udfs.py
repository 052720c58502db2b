"""Functions of one's own in queries."""

import ctypes
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tilt as tl
from tilt.externs import adopted, called


@pytest.fixture
def x() -> tl.Stream:
    return tl.stream({"t": range(1000), "x": np.arange(1, 1001) / 7}, time="t", unit="s")["x"]


# Numba's own objects warn when they are collected, which is an error in these tests.
@pytest.mark.filterwarnings("default")
def test_functions_compiled_by_numba_are_called_without_python(x: tl.Stream) -> None:
    numba = pytest.importorskip("numba")

    @numba.cfunc("float64(float64, float64)")  # type: ignore[untyped-decorator]
    def softened(value: float, width: float) -> float:
        return value / (width + abs(value))

    @numba.cfunc("boolean(int64)")  # type: ignore[untyped-decorator]
    def is_even(value: int) -> bool:
        return value % 2 == 0

    soft = tl.udf(softened, args=["f64", "f64"], returns="f64")
    got = soft(x, x["-10s":].max()).collect()["x"]
    values = np.arange(1, 1001) / 7
    np.testing.assert_array_equal(got, values / (values + values))
    even = tl.udf(is_even, args=[int], returns=bool)
    assert even(x.cast(int)).collect()["x"][:15] == [int(i / 7) % 2 == 0 for i in range(1, 16)]


def test_what_functions_cost_is_told(x: tl.Stream) -> None:
    half = tl.udf(lambda v: v / 2, args=[float], returns=float, name="half")
    assert "1000 rows" in half(x).explain(analyze=True)

    def fail(value: float) -> float:
        raise ZeroDivisionError(value)

    with pytest.raises(ZeroDivisionError):
        tl.udf(fail, args=[float], returns=float, name="fails")(x).explain(analyze=True)


def test_functions_of_ctypes_and_addresses(x: tl.Stream) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
    tripled = kind(lambda value: value * 3)
    expected = (x * 3).collect()["x"]
    assert tl.udf(tripled, args=[float], returns=float)(x).collect()["x"] == expected
    address = ctypes.cast(tripled, ctypes.c_void_p).value
    assert tl.udf(address, args=[float], returns=float)(x).collect()["x"] == expected
    with pytest.raises(TypeError, match="not NoneType"):
        tl.udf(None, args=[float], returns=float)


def doubled(value: float) -> float:
    """A function that is pickled by its name."""
    return value * 2


def test_functions_travel_with_pickled_streams(x: tl.Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    by_two = tl.udf(doubled, args=[float], returns=float)
    expected = (x * 2).collect()
    native = tl.udf(ctypes.CDLL(None).labs, args=["i64"], returns="i64", name="native_labs")
    kept, deferred = pickle.dumps(by_two(x)), pickle.dumps(by_two(tl.col("x")))
    pointed = pickle.dumps(native(x.cast(int)))
    assert pickle.loads(kept).collect() == expected
    # Another process knows neither, or has something else under the name.
    monkeypatch.setattr("tilt.run.FUNCTIONS", elsewhere := {by_two.__name__: abs})
    for module in ("tilt.externs", "tilt.run"):
        monkeypatch.setattr(f"{module}.FUNCTIONS", elsewhere)
    assert pickle.loads(kept).collect() == expected
    assert tl.struct(x=x, n=x).select(y=pickle.loads(deferred)).collect()["y"] == expected["x"]
    assert set(elsewhere) == {by_two.__name__, f"{by_two.__name__}_1"}
    with pytest.raises(tl.QueryError, match=r"tl\.udf\(\.\.\., name='native_labs'\)"):
        pickle.loads(pointed)
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(tl.udf(lambda v: v, args=[float], returns=float)(x))


def test_one_function_may_have_several_types() -> None:
    rows = tl.stream({"t": [1, 2], "x": [-1.5, 2.5], "n": [-3, 4]}, time="t")
    of_floats = tl.udf(abs, args=[float], returns=float)
    of_integers = tl.udf(abs, args=[int], returns=int)
    both = tl.struct(x=of_floats(rows["x"]), n=of_integers(rows["n"])).collect()
    assert (both["x"], both["n"]) == ([1.5, 2.5], [3, 4])


def test_a_function_may_be_called_on_what_it_gave() -> None:
    x = tl.stream({"t": [1, 2], "x": [3.0, 5.0]}, time="t")["x"]
    halved = tl.udf(lambda v: v / 2, args=[float], returns=float, name="halved_again")
    assert halved(halved(x)).collect()["x"] == [0.75, 1.25]
    assert halved(halved(x) + halved(x * 2)).collect().to_dict()[x.name] == [2.25, 3.75]


def test_functions_that_come_with_a_query_may_change_names_in_turn() -> None:
    def first(v: float) -> float:
        return v + 1

    def second(v: float) -> float:
        return v * 2

    text = "extern fn turn(f64) -> f64\nextern fn turn_1(f64) -> f64\n~y[t] = @turn(@turn_1(~x[t]))"
    tl.udf(lambda v: v, args=[float], returns=float, name="turn")
    here = adopted(text, {"turn": first, "turn_1": second})
    assert here.endswith("~y[t] = @turn_1(@turn_1_1(~x[t]))")
    assert called(here) == {"turn_1": first, "turn_1_1": second}


def test_a_run_that_was_interrupted_does_not_outlive_the_interpreter() -> None:
    code = """
import tilt as tl
x = tl.stream({"t": range(200_000), "x": [1.0] * 200_000}, time="t")["x"]
slow = tl.udf(lambda v: sum(range(50)) + v, args=[float], returns=float)
class Stop(Exception): pass
def stop(share): raise Stop
try:
    slow(x).collect(progress=stop)
except Stop:
    print("stopped")
"""
    for _ in range(3):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
        assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr

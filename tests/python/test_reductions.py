"""Every reduction against what NumPy, SciPy, pandas or Python say of the same values."""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

import tilt as tl
from tilt.expressions import REDUCTIONS

Values = NDArray[Any]
Expected = Callable[[Values, Values], Any]
"""What is expected of times and values of a window."""


def twa(t: Values, x: Values, *, until: int) -> float:
    lasting = np.diff(np.append(t, until))
    return float((x * lasting).sum() / lasting.sum())


def ewm(x: Values, alpha: float) -> float:
    return float(pd.Series(x).ewm(alpha=alpha).mean().iloc[-1])


def by_time(t: Values, x: Values, half_life: float) -> float:
    weights = 0.5 ** ((t[-1] - t) / half_life)
    return float((weights * x).sum() / weights.sum())


def defined(x: Values, least: int, moment: Any) -> Any:  # noqa: ANN401
    """Give an unbiased moment where there is one; SciPy gives the biased one of fewer values."""
    return moment if len(x) >= least else np.nan


FLOATS: dict[str, tuple[tl.Expr, Expected]] = {
    "mean": (tl.mean(), lambda _, x: np.mean(x)),
    "sum": (tl.sum(), lambda _, x: np.sum(x)),
    "product": (tl.product(), lambda _, x: np.prod(x)),
    "min": (tl.min(), lambda _, x: np.min(x)),
    "max": (tl.max(), lambda _, x: np.max(x)),
    "first": (tl.first(), lambda _, x: x[0]),
    "last": (tl.last(), lambda _, x: x[-1]),
    "len": (tl.len(), lambda _, x: len(x)),
    "std": (tl.std(), lambda _, x: np.std(x, ddof=1)),
    "std(0)": (tl.std(ddof=0), lambda _, x: np.std(x)),
    "var": (tl.var(), lambda _, x: np.var(x, ddof=1)),
    "var(0)": (tl.var(ddof=0), lambda _, x: np.var(x)),
    "skew": (tl.skew(), lambda _, x: stats.skew(x)),
    "skew unbiased": (tl.skew(bias=False), lambda _, x: defined(x, 3, stats.skew(x, bias=False))),
    "kurtosis": (tl.kurtosis(), lambda _, x: stats.kurtosis(x)),
    "kurtosis of Pearson": (tl.kurtosis(fisher=False), lambda _, x: stats.kurtosis(x, fisher=False)),
    "kurtosis unbiased": (tl.kurtosis(bias=False), lambda _, x: defined(x, 4, stats.kurtosis(x, bias=False))),
    "kurtosis of Pearson, unbiased": (
        tl.kurtosis(fisher=False, bias=False),
        lambda _, x: defined(x, 4, stats.kurtosis(x, fisher=False, bias=False)),
    ),
    "median": (tl.median(), lambda _, x: np.median(x)),
    "rms": (tl.rms(), lambda _, x: np.sqrt(np.mean(x * x))),
    "crest_factor": (tl.crest_factor(), lambda _, x: np.abs(x).max() / np.sqrt(np.mean(x * x))),
    "slope": (tl.slope(), lambda t, x: stats.linregress(t, x).slope),
    "n_unique": (tl.n_unique(), lambda _, x: len(np.unique(x))),
    "mode": (tl.mode(), lambda _, x: statistics.mode(x.tolist())),
    "arg_min": (tl.arg_min(), lambda t, x: t[np.argmin(x)]),
    "arg_max": (tl.arg_max(), lambda t, x: t[np.argmax(x)]),
    "collect": (tl.collect(), lambda _, x: x.tolist()),
    "top_k": (tl.top_k(3), lambda _, x: sorted(x.tolist(), reverse=True)[:3]),
    "ewm(alpha)": (tl.ewm(alpha=0.3), lambda _, x: ewm(x, alpha=0.3)),
    "ewm(span)": (tl.ewm(span=4), lambda _, x: ewm(x, alpha=2 / (4 + 1))),
    "ewm(com)": (tl.ewm(com=1.5), lambda _, x: ewm(x, alpha=1 / (1 + 1.5))),
    "ewm(half_life)": (tl.ewm(half_life=3), lambda t, x: by_time(t, x, 3)),
}
CONDITIONS: dict[str, tuple[tl.Expr, Expected]] = {
    "any": (tl.any(), lambda _, x: bool(np.any(x))),
    "all": (tl.all(), lambda _, x: bool(np.all(x))),
}


def windows(t: Values, x: Values, size: int) -> "list[tuple[int, Values, Values]]":
    """Give the end, times and values of every block that is not empty."""
    blocks = [(end, (t > end - size) & (t <= end)) for end in range(size, int(t[-1]) + size, size)]
    return [(end, t[inside], x[inside]) for end, inside in blocks if inside.any()]


def same(found: Any, expected: Any) -> bool:  # noqa: ANN401
    """Whether values agree to twelve digits; one that is not defined is missing here and NaN there."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(same(*pair) for pair in zip(found, expected, strict=True))
    if found is None:
        return bool(np.isnan(expected))
    return bool(found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True))


@pytest.fixture(scope="module")
def times() -> Values:
    """Instants with windows of one, two and many events."""
    return np.sort(np.random.default_rng(3).choice(4_000, 900, replace=False)) + 1


@pytest.fixture(scope="module")
def values(times: Values) -> Values:
    """Values of which some are the same."""
    return np.random.default_rng(4).normal(2, 5, len(times)).round(1)


def checked(t: Values, x: Values, reduction: tl.Expr, expected: Expected) -> None:
    stream = tl.stream({"t": t, "x": x}, time="t")["x"]
    for size in (7, 40):
        found = stream.window(tl.tumbling(size)).agg(y=reduction).collect().to_dict()
        ends = dict(zip(found["t"], found["y"], strict=True))
        for end, at, inside in windows(t, x, size):
            with np.errstate(all="ignore"):
                wanted = expected(at, inside)
            assert same(ends[end], wanted), (size, end, inside, ends[end], wanted)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy warns of moments of few values
def test_reductions_of_numbers(name: str, times: Values, values: Values) -> None:
    checked(times, values, *FLOATS[name])


@pytest.mark.parametrize("q", [0.0, 0.1, 0.37, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("method", ["linear", "lower", "higher", "nearest", "midpoint"])
def test_quantiles(q: float, method: Any, times: Values, values: Values) -> None:  # noqa: ANN401
    checked(times, values, tl.quantile(q, method), lambda _, x: np.quantile(x, q, method=method))


@pytest.mark.parametrize("name", CONDITIONS)
def test_reductions_of_conditions(name: str, times: Values, values: Values) -> None:
    checked(times, values > 0, *CONDITIONS[name])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("twa", lambda t, x, until: twa(t, x, until=until)),
        ("integral", lambda t, x, until: twa(t, x, until=until) * (until - t[0])),
    ],
)
def test_reductions_weighted_by_time(
    name: str, expected: Callable[[Values, Values, int], float], times: Values, values: Values
) -> None:
    held = tl.stream({"t": times, "x": values}, time="t", valid="until_next")["x"]
    found = getattr(held.window(tl.tumbling(25)), name)().collect(layout="interval").to_pylist()
    # An event is active at the instants from its time to the one before the next: as many as both are apart.
    for row in found[1:-1]:
        first = np.searchsorted(times, row["end"] - 24, side="right") - 1
        inside = slice(first, np.searchsorted(times, row["end"], side="right"))
        begun = np.maximum(times[inside], row["end"] - 24)
        assert row["x"] == pytest.approx(expected(begun, values[inside], row["end"] + 1), rel=1e-12)


def test_no_reduction_is_left_out() -> None:
    checked_ = {name.partition("(")[0].partition(" ")[0] for name in (*FLOATS, *CONDITIONS)}
    assert checked_ | {"quantile", "twa", "integral"} == REDUCTIONS - {"reduce"}
    assert all(hasattr(tl, name) for name in REDUCTIONS - {"reduce"})

"""The queries as loops for numba, as an engineer would write them: sums add what comes and subtract what goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numba
import numpy as np

if TYPE_CHECKING:
    from benches.python.work import Array

F = TypeVar("F")


def _compiled(function: F) -> F:
    return numba.njit(function)  # type: ignore[no-any-return]


@_compiled
def rolling_mean(times: Array, x: Array, length: int) -> Array:
    """Give the mean over ``(t - length, t]`` at each event."""
    out = np.empty(len(x))
    first, total = 0, 0.0
    for i in range(len(x)):
        total += x[i]
        while times[first] <= times[i] - length:
            total -= x[first]
            first += 1
        out[i] = total / (i + 1 - first)
    return out


@_compiled
def rolling_score(times: Array, x: Array, length: int) -> Array:
    """Give how many standard deviations each event is away from the mean over ``(t - length, t]``."""
    out = np.empty(len(x))
    first, total, squares = 0, 0.0, 0.0
    for i in range(len(x)):
        total += x[i]
        squares += x[i] * x[i]
        while times[first] <= times[i] - length:
            total -= x[first]
            squares -= x[first] * x[first]
            first += 1
        n = i + 1 - first
        out[i] = (x[i] - total / n) / np.sqrt((squares - total * total / n) / (n - 1)) if n > 1 else np.nan
    return out


@_compiled
def rolling_kurtosis(x: Array, samples: int) -> Array:
    """Give the unbiased excess kurtosis of the last samples, from four on."""
    out = np.empty(len(x))
    s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0
    for i in range(len(x)):
        v = x[i]
        s1, s2, s3, s4 = s1 + v, s2 + v * v, s3 + v * v * v, s4 + v * v * v * v
        if i >= samples:
            v = x[i - samples]
            s1, s2, s3, s4 = s1 - v, s2 - v * v, s3 - v * v * v, s4 - v * v * v * v
        n = float(min(i + 1, samples))
        if n < 4:  # noqa: PLR2004
            out[i] = np.nan
            continue
        m = s1 / n
        m2 = s2 / n - m * m
        m4 = s4 / n - 4 * m * s3 / n + 6 * m * m * s2 / n - 3 * m * m * m * m
        out[i] = ((n * n - 1) * m4 / (m2 * m2) - 3 * (n - 1) * (n - 1)) / ((n - 2) * (n - 3))
    return out


@_compiled
def rolling_crest(x: Array, samples: int) -> Array:
    """Give the largest absolute value of the last samples over the root of their mean square."""
    out = np.empty(len(x))
    # Samples that may still become the largest, their values falling.
    queue = np.empty(len(x), dtype=np.int64)
    front, back, squares = 0, 0, 0.0
    for i in range(len(x)):
        squares += x[i] * x[i]
        while back > front and abs(x[queue[back - 1]]) <= abs(x[i]):
            back -= 1
        queue[back] = i
        back += 1
        if i >= samples:
            squares -= x[i - samples] * x[i - samples]
            if queue[front] == i - samples:
                front += 1
        out[i] = abs(x[queue[front]]) / np.sqrt(squares / min(i + 1, samples))
    return out


@_compiled
def bars(times: Array, x: Array, length: int) -> tuple[Array, Array, Array, Array, Array, Array]:
    """Give end, mean, first, largest, least and last of each cell ``(k·length, (k+1)·length]`` with events."""
    most = (times[-1] - times[0]) // length + 2
    ends = np.empty(most, dtype=np.int64)
    mean, opened, high, low, close = np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    bar, count, total = -1, 0, 0.0
    for i in range(len(x)):
        end = ((times[i] - 1) // length + 1) * length
        if bar < 0 or end != ends[bar]:
            bar += 1
            ends[bar], opened[bar], high[bar], low[bar] = end, x[i], x[i], x[i]
            count, total = 0, 0.0
        count += 1
        total += x[i]
        high[bar], low[bar] = max(high[bar], x[i]), min(low[bar], x[i])
        close[bar], mean[bar] = x[i], total / count
    n = bar + 1
    return ends[:n], mean[:n], opened[:n], high[:n], low[:n], close[:n]


@_compiled
def keyed_mean(times: Array, keys: Array, x: Array, length: int, count: int) -> Array:
    """Give the mean over ``(t - length, t]`` of the events with the same key, at each event."""
    out = np.empty(len(x))
    # The row that follows each one with its key.
    following = np.empty(len(x), dtype=np.int64)
    oldest, newest = np.full(count, -1), np.full(count, -1)
    totals, numbers = np.zeros(count), np.zeros(count, dtype=np.int64)
    for i in range(len(x)):
        k = keys[i]
        if newest[k] >= 0:
            following[newest[k]] = i
        else:
            oldest[k] = i
        newest[k] = i
        totals[k] += x[i]
        numbers[k] += 1
        while times[oldest[k]] <= times[i] - length:
            totals[k] -= x[oldest[k]]
            numbers[k] -= 1
            oldest[k] = following[oldest[k]]
        out[i] = totals[k] / numbers[k]
    return out


@_compiled
def as_of(times: Array, keys: Array, right_times: Array, right_keys: Array, x: Array, count: int) -> Array:  # noqa: PLR0913, PLR0917
    """Give the last value of the right side with the same key, at or before each event."""
    out = np.empty(len(times))
    latest = np.full(count, np.nan)
    j = 0
    for i in range(len(times)):
        while j < len(right_times) and right_times[j] <= times[i]:
            latest[right_keys[j]] = x[j]
            j += 1
        out[i] = latest[keys[i]]
    return out


@_compiled
def ewm(times: Array, x: Array, half_life: int) -> Array:
    """Give the mean of all events so far, of which the weight halves with time."""
    out = np.empty(len(x))
    weighted, weight = x[0], 1.0
    out[0] = x[0]
    for i in range(1, len(x)):
        decay = 2.0 ** ((times[i - 1] - times[i]) / half_life)
        weighted, weight = x[i] + decay * weighted, 1.0 + decay * weight
        out[i] = weighted / weight
    return out


@_compiled
def resample(times: Array, x: Array, period: int) -> tuple[Array, Array]:
    """Give the last value at or before each multiple of ``period``, from the first event on."""
    begin = -(-times[0] // period)
    count = times[-1] // period - begin + 1
    out_times, out = np.empty(count, dtype=np.int64), np.empty(count)
    j = 0
    for i in range(count):
        t = (begin + i) * period
        while j + 1 < len(times) and times[j + 1] <= t:
            j += 1
        out_times[i], out[i] = t, x[j]
    return out_times, out

"""Data to try things on: realistic, documented, and the same for the same seed.

Every function gives :class:`Generated` rows: a table at once, or block by block for more rows than fit into memory.
Where something is hidden in the rows that a query is to find, ``truth`` says where it is. Only NumPy is needed.

>>> from tilt import generate
>>> ticks = generate.price_ticks(1_000, seed=7)
>>> len(ticks.table()), ticks.table() == generate.price_ticks(1_000, seed=7).table()
(1000, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilt.table import Categorical, Table, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Columns: TypeAlias = dict[str, Array | Categorical]

_BLOCK = 1 << 20
_MONDAY = np.datetime64("2026-01-05T00:00:00", "us")
_FRIDAY = 4
_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND
_DAY = 24 * _HOUR


@dataclass(frozen=True)
class Generated:
    """Rows that are generated when they are asked for, the same each time.

    >>> from tilt import generate
    >>> beats = generate.ecg(2, seed=3)
    >>> beats.rows, [len(block) for block in beats], beats.truth is None
    (500, [500], False)
    """

    rows: int
    """How many rows there are."""
    blocks: Callable[[], Iterator[Columns]]
    """The columns of up to a million rows at a time, in order of time."""
    truth: Table | None = None
    """What is hidden in the rows, if it does not stand in a column beside it."""

    def table(self) -> Table:
        """Give all rows.

        >>> from tilt import generate
        >>> generate.meter_readings(2, days=1).table().shape
        (192, 3)
        """
        blocks = list(self.blocks())
        return Table({name: _joined([block[name] for block in blocks]) for name in blocks[0]})

    def sink_parquet(self, path: str | PathLike[str], *, row_group_rows: int | None = None) -> int:
        """Write the rows to a Parquet file, a block at a time, and give their number.

        >>> import tempfile
        >>> from tilt import generate
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     generate.meter_readings(2, days=1).sink_parquet(f"{directory}/meters.parquet")
        192
        """
        return write(iter(self), path, format="parquet", row_group_rows=row_group_rows)

    def __iter__(self) -> Iterator[Table]:
        """Go through the rows in tables of up to a million."""
        return map(Table, self.blocks())


def price_ticks(n: int, *, seed: int = 0, rate: float = 20.0) -> Generated:
    """Trades of one stock: ``time``, ``price``, ``size``.

    The price is a random walk of cents. Trades come in bursts, some at one instant, between 9:30 and 16:00 of each day,
    ``rate`` a second on average; prices jump over night.

    >>> from tilt import generate
    >>> generate.price_ticks(5, seed=1).table().columns
    ['time', 'price', 'size']
    """
    session = 6.5 * 3_600 * _SECOND

    def blocks() -> Iterator[Columns]:
        at, cents = 0.0, 10_000.0
        for rng, count in _blocks(n, seed):
            # A third of the trades follow the one before them within a millisecond, many of those at the same instant.
            burst = rng.random(count) < 1 / 3
            waits = np.where(burst, rng.integers(0, 4, count) * 250, rng.exponential(1.5 * _SECOND / rate, count))
            open_for = at + np.cumsum(waits)
            at = float(open_for[-1])
            day, within = np.divmod(open_for, session)
            time = _MONDAY + (day * _DAY + 9.5 * _HOUR + np.floor(within)).astype("i8").astype("m8[us]")
            nights = np.diff(day, prepend=day[0]) > 0
            steps = rng.integers(-2, 3, count) + nights * rng.normal(0, 80, count).round()
            # Pulled back to where it began, so that it stays positive however long it is.
            walk = np.cumsum(steps) + (cents - 10_000.0)
            walk = 10_000.0 * np.exp(np.tanh(walk / 20_000.0) * 0.9)
            cents = cents + float(steps.sum())
            yield {"time": time, "price": walk.round() / 100, "size": rng.geometric(0.01, count) * 100}

    return Generated(n, blocks)


def eod_prices(symbols: int, days: int, *, seed: int = 0) -> Generated:
    """End-of-day prices of many stocks: ``date``, ``symbol``, ``open``, ``high``, ``low``, ``close``, ``volume``.

    Rows are ordered by day and then by symbol. Returns share a market factor; some days are missing for some symbols.

    >>> from tilt import generate
    >>> table = generate.eod_prices(3, days=10, seed=1).table()
    >>> sorted(set(table["symbol"]))
    ['S00000', 'S00001', 'S00002']
    """
    names = [f"S{i:05d}" for i in range(symbols)]
    per_block = max(1, _BLOCK // max(symbols, 1))
    missing = 0.002

    def present(day: int) -> Array:
        return _rng(seed, 1, day).random(symbols) >= missing

    def blocks() -> Iterator[Columns]:
        start = _rng(seed, 0)
        beta, close = start.normal(1, 0.3, symbols), start.lognormal(3.5, 0.8, symbols)
        for first in range(0, days, per_block):
            parts: list[dict[str, Array]] = []
            for day in range(first, min(days, first + per_block)):
                rng = _rng(seed, 2, day)
                opened = close * np.exp(rng.normal(0, 0.003, symbols))
                close = opened * np.exp(beta * rng.normal(0.0003, 0.01) + rng.normal(0, 0.015, symbols))
                swing = np.abs(rng.normal(0, 0.006, (2, symbols)))
                here = present(day)
                weekday = day // 5 * 7 + day % 5
                parts.append(
                    {
                        "date": np.full(symbols, _MONDAY.astype("M8[s]") + np.timedelta64(weekday, "D"))[here],
                        "symbol": np.arange(symbols, dtype=np.int32)[here],
                        "open": opened[here].round(2),
                        "high": (np.maximum(opened, close) * (1 + swing[0]))[here].round(2),
                        "low": (np.minimum(opened, close) * (1 - swing[1]))[here].round(2),
                        "close": close[here].round(2),
                        "volume": rng.lognormal(13, 1, symbols)[here].astype(np.int64),
                    }
                )
            columns: Columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
            columns["symbol"] = Categorical(columns["symbol"], names)  # type: ignore[arg-type]
            yield columns

    return Generated(sum(int(present(day).sum()) for day in range(days)), blocks)


def ecg(seconds: float, *, seed: int = 0, rate: int = 250, dropouts: float = 0.01) -> Generated:
    """Electrocardiogram: ``time``, ``mv``, ``rate`` samples a second, with noise, a wandering baseline and gaps.

    ``dropouts`` is the share of time without samples. ``truth`` has the instant of each beat's R peak, whether it was
    sampled or not.

    >>> from tilt import generate
    >>> signal = generate.ecg(10, seed=3)
    >>> 9 <= len(signal.truth) <= 14
    True
    """
    rng = _rng(seed, 0)
    count = int(seconds * rate)
    gaps = 0.83 + 0.03 * rng.standard_normal(int(seconds / 0.6) + 8)
    gaps += 0.05 * np.sin(2 * np.pi * 0.25 * np.cumsum(gaps))
    beats = np.cumsum(np.clip(gaps, 0.45, 1.4)) - 0.4
    beats = beats[beats < seconds]
    period = 1_000_000 // rate
    # Waves of a beat: seconds from the R peak, height in mV, width in seconds.
    waves = ((-0.2, 0.12, 0.025), (-0.03, -0.12, 0.01), (0.0, 1.1, 0.011), (0.03, -0.25, 0.01), (0.25, 0.28, 0.05))

    def kept(block: int, size: int) -> Array:
        rng = _rng(seed, 4, block)
        holes = np.zeros(size, dtype=bool)
        length = max(1, rate // 2)
        for hole in rng.integers(0, size, rng.poisson(dropouts * size / length)):
            holes[hole : hole + length] = True
        return ~holes

    def blocks() -> Iterator[Columns]:
        first = 0
        for block, (rng, size) in enumerate(_blocks(count, seed)):
            index = np.arange(first, first + size)
            at = index / rate
            mv = 0.12 * np.sin(2 * np.pi * 0.3 * at) + rng.normal(0, 0.015, size)
            low, high = np.searchsorted(beats, [at[0] - 0.6, at[-1] + 0.6])
            for beat in beats[low:high]:
                near = slice(*np.searchsorted(at, [beat - 0.35, beat + 0.55]))
                for offset, height, width in waves:
                    mv[near] += height * np.exp(-(((at[near] - beat - offset) / width) ** 2) / 2)
            keep = kept(block, size)
            yield {"time": (_MONDAY + (index * period).astype("m8[us]"))[keep], "mv": mv[keep].round(4)}
            first += size

    rows = sum(int(kept(block, size).sum()) for block, (_, size) in enumerate(_blocks(count, seed)))
    peaks = _MONDAY + (np.round(beats * 1_000_000)).astype("i8").astype("m8[us]")
    return Generated(rows, blocks, Table({"time": peaks}))


def vibration(seconds: float, *, seed: int = 0, rate: int = 50_000, fault_at: float = 0.5) -> Generated:
    """Acceleration of a bearing: ``time``, ``accel``, ``rate`` samples a second.

    From the share ``fault_at`` of the time on, a damaged outer ring rings at 107 blows a second, harder and harder:
    kurtosis and crest factor rise. ``truth`` has the beginning of the fault.

    >>> from tilt import generate
    >>> calm, faulty = (generate.vibration(1, fault_at=at).table().to_numpy()["accel"] for at in (1.0, 0.0))
    >>> bool(abs(faulty).max() > 2 * abs(calm).max())
    True
    """
    count, blow = int(seconds * rate), 1 / 107.36
    begin = fault_at * seconds
    period = 1_000_000 // rate

    def blocks() -> Iterator[Columns]:
        first = 0
        for rng, size in _blocks(count, seed):
            index = np.arange(first, first + size)
            at = index / rate
            accel = rng.normal(0, 0.08, size) + 0.05 * np.sin(2 * np.pi * 29.95 * at)
            since = np.mod(at, blow)
            damage = np.clip((at - begin) / max(seconds - begin, 1e-9), 0, 1)
            ring = np.exp(-since * 900) * np.sin(2 * np.pi * 3_300 * since)
            accel += np.where(at >= begin, (0.6 + 1.8 * damage) * ring, 0.0)
            yield {"time": _MONDAY + (index * period).astype("m8[us]"), "accel": accel.astype(np.float32)}
            first += size

    fault = _MONDAY + np.array([round(begin * 1_000_000)]).astype("m8[us]")
    return Generated(count, blocks, Table({"fault": fault}))


def transactions(n: int, *, seed: int = 0, cards: int = 1_000, fraud: float = 0.002) -> Generated:
    """Payments by card: ``time``, ``card``, ``amount``, ``merchant``, ``fraud``.

    Each card has its own usual amount. A fraudulent payment is many times that; ``fraud`` is the label.

    >>> from tilt import generate
    >>> table = generate.transactions(10_000, seed=2).table()
    >>> 5 <= sum(table["fraud"]) <= 50
    True
    """
    usual = _rng(seed, 0).lognormal(3.3, 0.7, cards)

    def blocks() -> Iterator[Columns]:
        at = 0.0
        for rng, size in _blocks(n, seed):
            time = at + np.cumsum(rng.exponential(1, size))
            at = float(time[-1])
            # About eight payments a day for each card.
            micros = (time * _DAY / (8 * cards)).astype("i8")
            card = rng.integers(0, cards, size)
            stolen = rng.random(size) < fraud
            factor = rng.lognormal(0, 0.35, size) * np.where(stolen, rng.uniform(8, 30, size), 1.0)
            yield {
                "time": _MONDAY + micros.astype("m8[us]"),
                "card": card,
                "amount": (usual[card] * factor).round(2),
                "merchant": rng.zipf(1.6, size).clip(max=9_999).astype(np.int32),
                "fraud": stolen,
            }

    return Generated(n, blocks)


def clicks(n: int, *, seed: int = 0, users: int = 500) -> Generated:
    """Clicks of users: ``time``, ``user``, ``url``, ``session``.

    A user's clicks in one session are less than half an hour apart, sessions further than that. ``session`` numbers
    each user's sessions from zero: it is what a session window has to find.

    >>> from tilt import generate
    >>> generate.clicks(6, seed=1).table().columns
    ['time', 'user', 'url', 'session']
    """
    pages = ["/", "/search", "/item", "/cart", "/pay", "/help"]

    def blocks() -> Iterator[Columns]:
        last = np.full(users, -_DAY, dtype=np.int64)
        session = np.full(users, -1, dtype=np.int64)
        at = 0
        for rng, size in _blocks(n, seed):
            # A click every few seconds of somebody: mostly of one of those who are about now.
            waits = rng.exponential(20 * _SECOND * 100 / users, size).astype("i8")
            time = at + np.cumsum(waits)
            at = int(time[-1])
            about = (time // (45 * 60 * _SECOND) * 7_919) % users
            user = (about + rng.integers(0, max(1, users // 20), size)) % users
            # In order of users and, of each, of time.
            order = np.lexsort((time, user))
            who, when = user[order], time[order]
            first = np.r_[True, who[1:] != who[:-1]]
            before = np.where(first, last[who], np.r_[0, when[:-1]])
            fresh = (when - before) > 30 * 60 * _SECOND
            counted = np.cumsum(fresh)
            starts = np.flatnonzero(first)
            base: Array = np.repeat(counted[starts] - fresh[starts], np.diff(np.r_[starts, size]))
            numbers = session[who] + counted - base
            ends = np.r_[starts[1:] - 1, size - 1]
            last[who[ends]], session[who[ends]] = when[ends], numbers[ends]
            numbered = np.empty(size, dtype=np.int64)
            numbered[order] = numbers
            yield {
                "time": _MONDAY + time.astype("m8[us]"),
                "user": user,
                "url": Categorical(rng.choice(6, size, p=[0.2, 0.25, 0.35, 0.1, 0.05, 0.05]).astype(np.int32), pages),
                "session": numbered,
            }

    return Generated(n, blocks)


def meter_readings(sites: int, days: int, *, seed: int = 0) -> Generated:
    """Electric load: ``time``, ``site``, ``kw``, every quarter of an hour of UTC for each site.

    Rows are ordered by time and then by site. There are days and nights, weekends, and now and then a reading that is
    missing (NaN).

    >>> from tilt import generate
    >>> generate.meter_readings(1, days=1).rows
    96
    """
    count = sites * days * 96
    start = _rng(seed, 0)
    size_of, phase = start.lognormal(3, 0.6, sites), start.normal(0, 1, sites)
    missing = 0.001

    def blocks() -> Iterator[Columns]:
        first = 0
        for rng, size in _blocks(count, seed):
            index = np.arange(first, first + size)
            quarter, site = np.divmod(index, sites)
            hour = quarter / 4
            working = 1 - 0.4 * (quarter // 96 % 7 > _FRIDAY)
            daily = 1 + 0.6 * np.sin(2 * np.pi * (hour - 8 + phase[site]) / 24) * working
            kw = size_of[site] * np.clip(daily + rng.normal(0, 0.08, size), 0.05, None)
            kw[rng.random(size) < missing] = np.nan
            yield {
                "time": _MONDAY.astype("M8[s]") + (quarter * 900).astype("m8[s]"),
                "site": site.astype(np.int32),
                "kw": kw.round(3),
            }
            first += size

    return Generated(count, blocks)


def ad_events(n: int, *, seed: int = 0, campaigns: int = 100, ads: int = 10, rate: float = 10_000.0) -> Generated:
    """Yahoo's streaming benchmark: ``time``, ``user``, ``page``, ``ad``, ``event_type``.

    ``truth`` is the table of ads with their ``campaign``. Each of ``campaigns`` has so many ``ads``; events are
    ``view``, ``click`` and ``purchase``, alike in number, ``rate`` a second.

    >>> from tilt import generate
    >>> events = generate.ad_events(100)
    >>> events.truth.shape
    (1000, 2)
    """
    kinds = ["view", "click", "purchase"]
    total = campaigns * ads

    def blocks() -> Iterator[Columns]:
        first = 0
        for rng, size in _blocks(n, seed):
            index = np.arange(first, first + size)
            yield {
                "time": (_MONDAY + (index * (_SECOND / rate)).astype("i8").astype("m8[us]")).astype("M8[ms]"),
                "user": rng.integers(0, 100, size),
                "page": rng.integers(0, 100, size),
                "ad": rng.integers(0, total, size),
                "event_type": Categorical(rng.integers(0, 3, size).astype(np.int32), kinds),
            }
            first += size

    table = Table({"ad": np.arange(total), "campaign": np.arange(total) // ads})
    return Generated(n, blocks, table)


def quotes_and_trades(n: int, *, seed: int = 0, symbols: int = 4) -> tuple[Generated, Generated]:
    """Quotes with ``time``, ``symbol``, ``bid`` and ``ask``; trades with ``time``, ``symbol``, ``price`` and ``size``.

    About every tenth quote is traded on, a little later, at its bid or ask. Times are nanoseconds.

    >>> from tilt import generate
    >>> quotes, trades = generate.quotes_and_trades(1_000, seed=4)
    >>> quotes.rows, trades.rows
    (1000, 100)
    """
    names = [f"SYM{i}" for i in range(symbols)]
    start = _MONDAY.astype("M8[ns]") + np.timedelta64(int(9.5 * 3_600), "s")

    def raw() -> Iterator[tuple[np.random.Generator, Array, Array, Array, Array]]:
        at, mids = 0, np.full(symbols, 10_000, dtype=np.int64)
        for rng, size in _blocks(n, seed):
            time = at + np.cumsum(rng.exponential(2_000_000, size).astype("i8"))
            at = int(time[-1])
            symbol = rng.integers(0, symbols, size).astype(np.int32)
            steps, mid = rng.integers(-1, 2, size), np.empty(size, dtype=np.int64)
            for code in range(symbols):
                own = symbol == code
                mid[own] = mids[code] + np.cumsum(steps[own])
                mids[code] += steps[own].sum()
            yield rng, time, symbol, np.maximum(mid, 100), rng.integers(1, 4, size)

    def quotes() -> Iterator[Columns]:
        for _, time, symbol, mid, half in raw():
            yield {
                "time": start + time.astype("m8[ns]"),
                "symbol": Categorical(symbol, names),
                "bid": (mid - half) / 100,
                "ask": (mid + half) / 100,
            }

    def trades() -> Iterator[Columns]:
        for rng, time, symbol, mid, half in raw():
            hit = slice(9, None, 10)
            when = time[hit] + rng.integers(1_000, 1_000_000, len(time[hit]))
            # A trade may be later than the next one's: they are reported in order.
            order = np.argsort(when, kind="stable")
            side = rng.choice([-1, 1], len(when))
            yield {
                "time": start + when[order].astype("m8[ns]"),
                "symbol": Categorical(symbol[hit][order], names),
                "price": ((mid[hit] + side * half[hit]) / 100)[order],
                "size": rng.geometric(0.01, len(when)) * 100,
            }

    hits = sum(size // 10 for _, size in _blocks(n, seed))
    return Generated(n, quotes), Generated(hits, trades)


def _rng(seed: int, *place: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=place))


def _blocks(n: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Give a source of randomness and a number of rows for each block."""
    if n < 1:
        message = f"at least one row is generated, not {n}"
        raise ValueError(message)
    for number, first in enumerate(range(0, n, _BLOCK)):
        yield _rng(seed, 3, number), min(_BLOCK, n - first)


def _joined(parts: list[Array | Categorical]) -> Array | Categorical:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    if isinstance(first, Categorical):
        return Categorical(np.concatenate([part.codes for part in parts]), first.categories)  # type: ignore[union-attr]
    return np.concatenate(parts)  # type: ignore[arg-type]

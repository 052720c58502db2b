"""Queries of many shapes, and random rows for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import tilt as tl

Query = Callable[..., tl.Stream]


def zscore(x: tl.Stream) -> tl.Stream:
    price = x["price"]
    return x.with_columns(z=(price - price["-10s":].mean()) / price["-10s":].std())


def trend(x: tl.Stream) -> tl.Stream:
    diff = x["price"]["-5s":].mean() - x["price"]["-10s":].mean()
    return diff.filter(diff > 0).alias("trend")


def asof(trades: tl.Stream, quotes: tl.Stream) -> tl.Stream:
    return trades.with_columns(mid=(quotes["bid"] + quotes["ask"]).hold("20s"))


def around(trades: tl.Stream, quotes: tl.Stream) -> tl.Stream:
    return trades.with_columns(bid=quotes["bid"]["-3s":"+2s"].mean(), ask=quotes["ask"]["-1s":].max())


def overlapping(trades: tl.Stream, quotes: tl.Stream) -> tl.Stream:
    return trades.select("price").hold("3s").join(quotes.select("bid", "ask").hold("5s"))


ONE: dict[str, Query] = {
    "zscore": zscore,
    "trend": trend,
    "ahead": lambda x: x["price"]["-2s":"+3s"].max() - x["price"],
    "hopping": lambda x: x["price"].window(tl.hopping("7s", every="2s")).agg(n=tl.len(), mean=tl.mean()),
    "tumbling": lambda x: x["price"].window(tl.tumbling("10s")).std(),
    "calendar": lambda x: x["price"].window(tl.calendar("1h")).sum(),
    "filled": lambda x: x["price"]["-3s":].sum().every("1s").fill_null(0.0),
    "held": lambda x: x["price"].hold("4s"),
    "shifted": lambda x: x["price"] - x["price"].hold("30s")["-5s"],
    "texts": lambda x: x.filter(x["sym"] == "a").with_columns(n=x["size"]["-5s":].sum()),
    "block": lambda x: x["price"] - x["price"].window(tl.tumbling("10s")).mean(),
}
"""Queries of one input whose reach is bounded."""

KEYED: dict[str, Query] = ONE | {
    "diff": lambda x: x["price"].diff(),
    "running": lambda x: x["size"].cum_sum(),
    "sessions": lambda x: x["price"].window(tl.session("2s")).agg(n=tl.len(), last=tl.last()),
    "last three": lambda x: x["price"].window(tl.count(3)).mean(),
}
"""Queries of one input that are possible for each key."""

TWO: dict[str, Query] = {"asof": asof, "around": around, "overlapping": overlapping}
"""Queries of trades and quotes."""


def three(trades: tl.Stream, quotes: tl.Stream, news: tl.Stream) -> tl.Stream:
    return trades.with_columns(
        mid=(quotes["bid"] + quotes["ask"]).hold("20s"), said=news["size"]["-5s":"+1s"].sum(), size=trades["size"] * 2
    )


def merged(trades: tl.Stream, quotes: tl.Stream, news: tl.Stream) -> tl.Stream:
    spread = (quotes["ask"] - quotes["bid"])["-4s":].mean()
    return (trades["price"].hold("9s") + spread.hold("9s") - news["price"].hold("30s")).alias("sum")


THREE: dict[str, Query] = {"three": three, "merged": merged}
"""Queries of trades, quotes and news."""

LISTS: dict[str, Query] = {
    "collected": lambda x: x["price"].window("3s").agg(all=tl.collect(), few=tl.top_k(2), n=tl.len()),
    "words": lambda x: x.with_columns(words=x["sym"]["-2s":].agg(all=tl.collect())["all"]),
}
"""Queries whose results have lists."""

SECTORS = tl.table({"name": ["a", "b"], "sector": ["x", "y"]}, key="name")


def shares(x: tl.Stream) -> tl.Stream:
    whole = x.key_by("sym")["size"].window(tl.tumbling("4s")).sum().unkey()["size"].window(tl.tumbling("4s")).sum()
    return x.with_columns(share=x["size"] / whole.at(x))


STAGED: dict[str, Query] = {
    "means": lambda x: x.key_by("sym")["price"].window(tl.tumbling("5s")).mean().unkey()["price"].window("9s").sum(),
    "steps": lambda x: x.key_by("sym").with_columns(d=tl.col("price").diff()).unkey()["d"]["-10s":].mean(),
    "shares": shares,
    "looked up": lambda x: (
        x.lookup(SECTORS, on="sym")
        .key_by("sector")["size"]
        .window(tl.tumbling("3s"))
        .sum()
        .unkey()["size"]["-9s":]
        .max()
    ),
    "looked up later": lambda x: (
        x.with_columns(m=x["price"]["-5s":].mean())
        .lookup(SECTORS, on="sym")
        .filter(tl.col("sector") == "x")["m"]
        .diff()
    ),
}
"""Queries of one input that are computed in stages."""

Row = dict[str, Any]


def ticks(rng: np.random.Generator, rows: int, *, span: int = 120, nulls: float = 0.1) -> pa.Table:
    """Give trades in bursts: many at one instant, some without a price."""
    bursts = rng.integers(0, span * 1000, max(rows // 4, 1))
    times = np.sort(rng.choice(bursts, rows) + rng.choice([0, 0, 1, 40], rows)) * 1000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "price": pa.array(rng.normal(100, 5, rows), mask=rng.random(rows) < nulls),
            "size": pa.array(rng.integers(1, 100, rows)),
            "sym": pa.array(np.array(["a", "b", "c", None])[rng.integers(0, 4, rows)], pa.string()),
        }
    )


def keyed_ticks(rng: np.random.Generator, rows: int, keys: int) -> pa.Table:
    """Give trades of so many keys at most, of which some have many rows."""
    table = ticks(rng, rows)
    numbers = np.minimum(rng.zipf(1.3, rows), keys) if rng.random() < 0.5 else rng.integers(0, keys, rows)
    names = pa.array([f"key {number}" for number in numbers])
    return table.set_column(table.column_names.index("sym"), "sym", names)


def quotes(rng: np.random.Generator, rows: int, *, span: int = 120) -> pa.Table:
    """Give quotes."""
    table = ticks(rng, rows, span=span, nulls=0.0)
    bid = table.column("price")
    return pa.table(
        {
            "ts": table.column("ts"),
            "sym": table.column("sym"),
            "bid": bid,
            "ask": pa.array(bid.to_numpy() + rng.random(rows)),
        }
    )


def tables_of_three(rng: np.random.Generator, rows: int) -> dict[str, pa.Table]:
    """Give the inputs of :data:`THREE`."""
    return {"trades": ticks(rng, rows), "quotes": quotes(rng, rows), "news": ticks(rng, max(rows // 3, 1), nulls=0.0)}

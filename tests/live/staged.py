"""Queries that are computed in stages, and what they give of all rows."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import tilt as tl

NAMES = tl.table({"level": [0, 1, 2, 3], "word": ["none", "one", "two", "three"]}, key="level")


Make = Callable[..., tl.Stream]


def moves(source: tl.Stream) -> tl.Stream:
    """Give a stream of points of all keys, each computed within its key."""
    return source.key_by("sym").with_columns(move=tl.col("px").diff()).unkey()


def levels(source: tl.Stream) -> tl.Stream:
    """Give a stream with a column that is computed from more than its row."""
    return source.with_columns(level=tl.col("qty").window("4s").sum())


def counts(source: tl.Stream) -> tl.Stream:
    """Give cells of a grid, one for each key that has rows."""
    return source.key_by("sym").window(tl.tumbling("4s")).agg(n=tl.len(), top=tl.col("px").max()).unkey()


def visits(source: tl.Stream) -> tl.Stream:
    """Give intervals of any length that do not overlap."""
    return source.window(tl.session(gap="2s")).agg(n=tl.len(), sum=tl.col("qty").sum())


QUERIES: dict[str, Make] = {
    "across keys": lambda s: moves(s)["move"].window("5s").sum(),
    "a computed key": lambda s: levels(s).key_by("level")["px"].window("9s").mean(),
    "one key after another": lambda s: (
        moves(s).with_columns(n=tl.col("move").window("3s").len()).key_by("n")["px"].prev()
    ),
    "cells across keys": lambda s: counts(s)["n"].window("9s").sum(),
    "cells of cells": lambda s: counts(s).window(tl.tumbling("8s")).agg(n=tl.col("n").sum(), keys=tl.len()),
    "cells that are filled": lambda s: moves(s)["move"].window(tl.tumbling("3s")).len().fill_null(0),
    "filled cells below": lambda s: (
        tl.struct(n=s["px"].window(tl.tumbling("3s")).len().fill_null(0))
        .key_by("n")["n"]
        .window("20s")
        .len()
        .alias("m")
    ),
    "held": lambda s: moves(s)["move"].hold("3s").every("2s"),
    "held below": lambda s: tl.struct(p=s["qty"].hold("3s").every("2s")).key_by("p")["p"].window("9s").len().alias("n"),
    "held for good below": lambda s: tl.struct(p=s["qty"].hold()).key_by("p")["p"].window("9s").len().alias("n"),
    "ahead of ahead": lambda s: (
        s.key_by("sym").with_columns(around=tl.col("px")["-2s":"+3s"].sum()).unkey()["around"]["-1s":"+2s"].mean()
    ),
    "a running total": lambda s: moves(s)["qty"].cum_sum(),
    "beside its rows": lambda s: moves(s)["move"].window("5s").sum() - s["px"].window("3s").mean(),
    "beside its rows of other columns": lambda s: (
        s["qty"].window("6s").sum() - s.key_by("sym")["px"].diff().unkey()["px"].window("5s").len()
    ),
    "beside its keys": lambda s: (
        s.key_by("sym")["px"].window("5s").sum() - moves(s)["move"].window("5s").max() + s["px"].window("2s").len()
    ),
    "intervals by key": lambda s: visits(s).key_by("n").with_columns(before=tl.col("sum").prev()),
    "intervals in a window": lambda s: visits(s).key_by("n").unkey()["sum"].window("9s").sum(),
    "readings by a computed key": lambda s: levels(s).key_by("level").with_columns(twice=tl.col("px") * 2),
    "readings in a window": lambda s: levels(s).key_by("level").unkey()["px"].window("7s").twa(),
    "a table beside results": lambda s: levels(s).lookup(NAMES, on="level").select("word", "px"),
    "a table beside results by key": lambda s: (
        levels(s).lookup(NAMES, on="level").key_by("word").with_columns(mean=tl.col("px").window("9s").mean())
    ),
    "moved ahead": lambda s: levels(s).shift("5s").key_by("level")["px"].window("9s").mean(),
    "moved back": lambda s: levels(s).shift("-5s").key_by("level")["px"].window("9s").mean(),
    "cells by what they count": lambda s: s.window(tl.tumbling("4s")).agg(n=tl.len()).key_by("n").cum_count(),
    "samples across keys": lambda s: tl.struct(p=s.key_by("sym")["qty"].resample("2s")).unkey()["p"].window("5s").sum(),
    "sessions": lambda s: moves(s).window(tl.session(gap="3s")).agg(n=tl.len(), m=tl.col("move").max()),
}


def whole(make: Make, *tables: pa.Table, **events: Any) -> tl.Table:  # noqa: ANN401
    """Run a query on all rows."""
    return make(*(tl.stream(rows, **{"time": "t", "unit": "s"} | events) for rows in tables)).collect()


def spread(left: tl.Stream, right: tl.Stream) -> tl.Stream:
    """Read one stream in two stages and by two keys, another one in the first of them."""
    left_px, right_px = left.key_by("sym")["px"], right.key_by("sym")["px"]
    gap = (left_px.window("4s").mean() - right_px.window("6s").mean().at(left_px)).at(left_px)
    gaps: tl.Stream = tl.struct(gap=gap).unkey()["gap"]
    return gaps.window("5s").max() - left["qty"].window("3s").sum()

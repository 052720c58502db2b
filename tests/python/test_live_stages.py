"""Live sessions of queries that are computed in stages: what a run on all rows gives, as early as it is certain."""

import datetime as dt
import random
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilt as tl
from arrivals import SCHEMA, TYPES, arriving, bits, ordered, pieces, table, ticks, together, typed
from staged import QUERIES, Make, counts, moves, spread, visits, whole
from tilt.live import Session
from tilt.live.options import Completion, Late

UTC = dt.timezone.utc


START = dt.datetime(2026, 3, 29, tzinfo=UTC)


EVENTS: dict[str, dict[str, Any]] = {name: {"valid": "until_next"} for name in QUERIES if name.startswith("readings")}
"""How rows become events, where they are not points."""


row = st.tuples(
    st.integers(0, 40),
    st.one_of(st.none(), st.integers(-50, 50).map(lambda x: x / 8), st.just(float("nan"))),
    st.integers(0, 3),
    st.sampled_from(["a", "b", "ü"]),
    st.integers(0, 5),
)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(row, max_size=40),
    sizes=st.lists(st.integers(0, 9), max_size=12),
    generator=st.randoms(use_true_random=False),
)
def test_any_batches_in_any_order_give_what_collect_gives(
    name: str, rows: list[tuple[Any, ...]], sizes: list[int], generator: random.Random
) -> None:
    make, events, rows = QUERIES[name], EVENTS.get(name, {}), arriving(rows)
    query = make(ticks(**events))
    live = query.session(lateness="5s")
    assert live.streams == ["ticks"]
    parts, high = [], 0
    for piece in pieces(rows, sizes):
        parts.append(live.push(table(piece) if piece else []))
        high = max([high, *(r[0] for r in piece)])
        if generator.randrange(6) == 0:
            live = Session.restore(query, live.checkpoint())
        if generator.randrange(6) == 0:
            # Rows that are still to come are at most so late.
            parts.append(live.advance(high - 5))
    parts.append(live.close())
    assert together(parts) == bits(whole(make, ordered(rows), **events))
    assert live.status().streams["ticks"].accepted == len(rows)


def asof(left: tl.Stream, right: tl.Stream) -> tl.Stream:
    """Join within keys first, then look at all of them."""
    return left.key_by("sym").join_asof(right.key_by("sym")).unkey()["qty_right"].window("5s").sum()


@pytest.mark.parametrize("make", [spread, asof])
@settings(max_examples=30, deadline=None)
@given(
    left=st.lists(row, max_size=25),
    right=st.lists(row, max_size=25),
    generator=st.randoms(use_true_random=False),
)
def test_two_streams_at_their_own_pace(
    make: Make, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], generator: random.Random
) -> None:
    query = make(ticks("left"), ticks("right"))
    live = query.session(lateness={"left": "5s", "right": 5})
    waiting = {"left": arriving(left), "right": arriving(right)}
    parts = []
    while any(waiting.values()):
        stream = generator.choice([name for name, rows in waiting.items() if rows])
        count = generator.randint(1, 6)
        now, waiting[stream] = waiting[stream][:count], waiting[stream][count:]
        parts.append(live.push(table(now), stream))
        assert live.status().holding_back in {"left", "right"}
        if generator.randrange(5) == 0:
            live = Session.restore(query, live.checkpoint())
    parts.append(live.close())
    # Events of one instant are in the order in which they came.
    assert together(parts) == bits(whole(make, ordered(arriving(left)), ordered(arriving(right))))


@pytest.mark.parametrize("name", QUERIES)
def test_rows_of_a_source_are_not_pushed_but_its_columns_count(name: str) -> None:
    make, events = QUERIES[name], EVENTS.get(name, {})
    # No two of these are of one instant, which the query may count on; of those that are pushed some are.
    history = tl.stream(typed(table([(1, 1.0, 1, "a"), (2, 2.0, 2, "b")])), time="t", unit="s", **events)
    rows = [(t // 3, float(t * t % 13), t % 4, "abc"[t % 3]) for t in range(90)]
    live = make(history).session()
    (stream,) = live.streams
    parts = [live.push(table(rows[first : first + 4]), stream) for first in range(0, 90, 4)]
    assert together([*parts, live.close()]) == bits(whole(make, ordered(rows), **events))


def test_results_come_as_soon_as_they_are_certain() -> None:
    live = moves(ticks())["move"].window("5s").sum().session()
    rows = [(1, 1.0, 0, "a"), (2, 2.0, 0, "a"), (2, 5.0, 0, "b"), (4, 4.0, 0, "b"), (7, 8.0, 0, "a")]
    # A row may have the time of the last one, so what is before that is certain.
    parts = [live.push(dict(zip(SCHEMA, r, strict=True))).to_dict() for r in rows]
    none: dict[str, list[Any]] = {"time": [], "move": []}
    assert parts == [none, none, none, {"time": [2], "move": [1.0]}, {"time": [4], "move": [0.0]}]
    # Of cells the one that has begun is not certain; what the next stage makes of it is not, either.
    live = counts(ticks())["n"].window("8s").sum().session()
    assert len(live.push({"t": [1, 3, 4], "px": [1.0] * 3, "qty": [0] * 3, "sym": ["a", "b", "a"]})) == 0
    assert live.push({"t": 5, "px": 1.0, "qty": 0, "sym": "b"}).to_dict() == {"time": [4, 4], "n": [3, 3]}
    # Rows do not come, but time goes on.
    assert live.advance(8).to_dict() == {"time": [], "n": []}
    live = Session.restore(counts(ticks())["n"].window("8s").sum(), live.checkpoint())
    assert live.advance(9).to_dict() == {"time": [8], "n": [4]}


def test_intervals_are_read_when_they_have_ended() -> None:
    live = visits(ticks()).key_by("n").with_columns(before=tl.col("sum").prev()).session()
    columns = {"px": [1.0, 1.0], "sym": ["a", "a"]}
    assert len(live.push({"t": [1, 2], "qty": [1, 2], **columns})) == 0
    assert live.push({"t": [9, 10], "qty": [3, 4], **columns})["sum"] == [3]
    found = live.push({"t": [20, 30], "qty": [5, 6], **columns})
    assert (found["end"], found["n"], found["before"]) == ([10, 20], [2, 1], [3, None])


def test_late_rows_are_raised_dropped_or_adjusted_once_for_all_stages() -> None:
    make = QUERIES["beside its rows of other columns"]
    rows = [(10, 1.0, 1, "a"), (20, 2.0, 2, "a"), (22, 4.0, 3, "a")]
    late = [(11, 8.0, 9, "a"), (21, 4.0, 5, "a")]
    live = make(ticks()).session(lateness="2s")
    parts = [live.push(table(rows))]
    with pytest.raises(tl.LateDataError, match="stream `ticks`, row 0: 11 is 9s behind the watermark 20") as error:
        live.push(table(late))
    assert (error.value.row, error.value.input) == (0, "ticks")
    # Neither stage has the row that is not late.
    assert live.status().streams["ticks"].accepted == 3
    assert together([*parts, live.close()]) == bits(whole(make, ordered(rows)))

    live = make(ticks()).session(lateness="2s", late="drop")
    parts = [live.push(table(rows)), live.push(table(late))]
    counted = live.status().streams["ticks"]
    assert (counted.accepted, counted.dropped) == (4, 1)
    gone = live.late()
    assert (gone["late"], gone["late_by"], gone["end"]) == (["dropped"], [9], [11])
    assert len(live.late()) == 0
    assert together([*parts, live.close()]) == bits(whole(make, ordered([*rows, late[1]])))

    live = make(ticks()).session(lateness="2s", late="adjust")
    parts = [live.push(table(rows)), live.push(table(late))]
    assert live.status().streams["ticks"].adjusted == 1
    moved = (20, *late[0][1:])
    assert together([*parts, live.close()]) == bits(whole(make, ordered([rows[0], rows[1], moved, late[1], rows[2]])))


WRONG: dict[str, dict[str, Any]] = {
    "a column that the first stage does not read": {"t": 3, "px": 1.0, "sym": "a"},
    "a column that the last stage does not read": {"t": 3, "px": 1.0, "qty": 1},
    "a type that the first stage does not read": {"t": 3, "px": 1.0, "qty": 1.5, "sym": "a"},
    "a type that the last stage does not read": {"t": 3, "px": "high", "qty": 1, "sym": "a"},
    "a null time": {"t": [3, None], "px": [1.0, 1.0], "qty": [1, 1], "sym": ["a", "a"]},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_one_stage_refuses_no_stage_takes(what: str) -> None:
    make = QUERIES["beside its rows of other columns"]
    live = make(ticks()).session()
    rows = [(1, 1.0, 1, "a"), (2, 2.0, 2, "a"), (4, 4.0, 3, "a")]
    parts = [live.push(table(rows[:2]))]
    with pytest.raises(tl.SchemaError):
        live.push(WRONG[what])
    parts += [live.push(table(rows[2:])), live.close()]
    assert together(parts) == bits(whole(make, ordered(rows)))
    assert live.status().streams["ticks"].accepted == 3


@settings(max_examples=25, deadline=None)
@given(
    st.lists(row, max_size=30),
    st.lists(st.integers(1, 5), max_size=12),
    st.sampled_from(["drop", "adjust"]),
    st.sampled_from(["beside its rows", "beside its keys", "across keys"]),
)
def test_any_disorder_is_the_same_in_all_stages(
    rows: list[tuple[Any, ...]],
    sizes: list[int],
    late: Late,
    name: str,
) -> None:
    """Compare with a session that says what became of each row: those that count, at the times where they are."""
    make = QUERIES[name]
    live, plain = make(ticks()).session(lateness=2, late=late), ticks().session(lateness=2, late=late)
    parts, taken = [], []
    for piece in pieces(rows, sizes):
        if piece:
            parts.append(live.push(table(piece)))
            taken.append(plain.push(table(piece)))
    parts.append(live.close())
    taken.append(plain.close())
    columns = {name: [value for part in taken for value in part.to_dict().get(name, [])] for name in SCHEMA}
    assert together(parts) == bits(whole(make, typed(columns)))
    fates = ("accepted", "dropped", "adjusted")
    mine, theirs = live.status().streams["ticks"], plain.status().streams["ticks"]
    assert [getattr(mine, fate) for fate in fates] == [getattr(theirs, fate) for fate in fates]
    assert bits(live.late()).get("late_by") == bits(plain.late()).get("late_by")


told = st.one_of(
    st.tuples(st.just("push"), st.sampled_from(["left", "right"]), st.lists(row, min_size=1, max_size=4)),
    st.tuples(st.just("advance"), st.none(), st.integers(0, 40)),
    st.tuples(st.just("advance"), st.sampled_from(["left", "right"]), st.integers(0, 40)),
    st.tuples(st.just("idle"), st.sampled_from(["left", "right"]), st.none()),
    st.tuples(st.just("flush"), st.none(), st.none()),
    st.tuples(st.just("restore"), st.none(), st.none()),
)


def after(
    live: Session,
    query: tl.Stream,
    what: str,
    stream: str | None,
    given_: Any,  # noqa: ANN401
) -> tuple[Session, tl.Table]:
    """Give a session that was told something, and what it gives."""
    match what:
        case "push":
            return live, live.push(wide(given_), stream)
        case "advance":
            return live, live.advance(given_, stream)
        case "idle":
            return live, live.idle(str(stream))
        case "flush":
            return live, live.flush()
        case _:
            live = Session.restore(query, live.checkpoint())
            return live, live.take()


def known(live: Session) -> list[Any]:
    """Give what is known of the rows of two streams."""
    status = live.status()
    fields = ("watermark", "is_idle", "buffered", "accepted", "dropped", "adjusted")
    streams = [(stream, *(getattr(at, field) for field in fields)) for stream, at in status.streams.items()]
    rows = [bits(live.late(stream).select("start", "end", "late_by")) for stream in ("left", "right")]
    return [*streams, *rows, status.holding_back]


@settings(max_examples=60, deadline=None)
@given(st.lists(told, max_size=20), st.sampled_from(["drop", "adjust"]), st.sampled_from(["drop", "flush", "end"]))
def test_what_is_late_is_as_in_a_session_of_one_stage(
    steps: list[tuple[str, str | None, Any]], late: Late, completion: Completion
) -> None:
    sides = ticks("left"), ticks("right")
    one = sides[0]["px"].window("4s").mean() - sides[1]["px"].window("6s").mean()
    queries = [spread(*sides), one]
    lives = [query.session(lateness="2s", late=late) for query in queries]
    for step in steps:
        lives = [after(live, query, *step)[0] for live, query in zip(lives, queries, strict=True)]
        assert known(lives[0]) == known(lives[1])
    for live in lives:
        live.close(completion)
    ends = [[(at.accepted, at.dropped) for at in live.status().streams.values()] for live in lives]
    assert ends[0] == ends[1]


def counted(left: tl.Stream, right: tl.Stream) -> tl.Stream:
    """Read both streams in two stages, with a result for each row of either."""

    def below(source: tl.Stream, by: tl.Expr) -> tl.Stream:
        keyed = source.with_columns(n=by).key_by("n").with_columns(m=tl.col("qty").window("9s").sum())
        return keyed.unkey()["m"].window("5s").sum() - source["qty"]

    merged: tl.Stream = tl.coalesce(
        below(left, tl.col("qty").window("4s").sum()), below(right, tl.col("qty").window("3s").len())
    )
    return merged


@settings(max_examples=60, deadline=None)
@given(st.lists(told, max_size=20))
def test_results_are_those_of_the_rows_that_count(steps: list[tuple[str, str | None, Any]]) -> None:
    """Whatever streams are told: which rows count is what a session of one stage says."""
    sides = ticks("left"), ticks("right")
    queries = [counted(*sides), sides[0]["qty"].window("4s").sum() - sides[1]["qty"].window("6s").sum()]
    lives = [query.session(lateness="2s", late="drop") for query in queries]
    # What columns results have is known when all streams have had rows.
    steps = [("push", "left", [(0, 0.0, 0, "a")]), ("push", "right", [(0, 0.0, 0, "a")]), *steps]
    came: dict[str, list[tuple[Any, ...]]] = {"left": [], "right": []}
    parts = []
    for what, stream, given_ in steps:
        rows = given_ if what != "advance" else given_ // 4
        if what == "push":
            # Each row has a number of its own.
            rows = [(r[0] // 4, r[1], len(came[str(stream)]) + i, *r[3:]) for i, r in enumerate(given_)]
            came[str(stream)] += rows
        told_ = [after(live, query, what, stream, rows) for live, query in zip(lives, queries, strict=True)]
        lives = [live for live, _ in told_]
        parts.append(told_[0][1])
    parts.append(lives[0].close())
    gone = {stream: set(lives[1].late(stream).to_dict().get("qty", [])) for stream in came}
    kept = [ordered(r for r in rows if r[2] not in gone[stream]) for stream, rows in came.items()]
    assert together(parts) == bits(whole(counted, *kept))


KINDS: dict[str, dict[str, Any]] = {
    "points": {"time": "t"},
    "samples": {"time": "even", "valid": "2s", "overlap": "bag"},
    "readings": {"time": "t", "valid": "until_next"},
    "intervals": {"valid": ("t", "till"), "overlap": "bag"},
    "intervals from the left": {"valid": ("t", "till"), "overlap": "bag", "closed": "left"},
}


def wide(rows: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Give rows with the times of every kind."""
    columns = table(rows)
    ends = [t + 1 + qty for t, qty in zip(columns["t"], columns["qty"], strict=True)]
    return columns | {"till": ends, "even": [2 * t for t in columns["t"]]}


def beside(left: tl.Stream, right: tl.Stream) -> tl.Stream:
    """Read both streams in both stages."""
    at = left["px"]
    below: tl.Stream = tl.struct(px=at, n=right["qty"].window("4s").sum().at(at))
    return below.key_by("n")["px"].window("5s").mean() - right["qty"].window("3s").max().at(at) + at.window("2s").len()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(st.lists(row, max_size=25), st.lists(row, max_size=25), st.randoms(use_true_random=False))
def test_streams_of_any_kind_of_events(
    kind: str, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]], generator: random.Random
) -> None:
    schema = SCHEMA | {"till": "i64", "even": "i64"}
    sides = [tl.source(name, schema, unit="s", **events) for name, events in streams_of(kind)]
    query = beside(*sides)
    live = query.session(lateness="10s")
    came = {"left": arriving(left), "right": arriving(right)}
    waiting, parts = dict(came), []
    while any(waiting.values()):
        stream = generator.choice([name for name, rows in waiting.items() if rows])
        count = generator.randint(1, 6)
        now, waiting[stream] = waiting[stream][:count], waiting[stream][count:]
        parts.append(live.push(wide(now), stream))
        if generator.randrange(5) == 0:
            live = Session.restore(query, live.checkpoint())
    parts.append(live.close())
    types = {**TYPES, "till": pa.int64(), "even": pa.int64()}
    tables = {
        name: pa.table({column: pa.array(values, types[column]) for column, values in wide(rows).items()})
        for name, rows in came.items()
    }
    whole_sides = [tl.stream(tables[name], unit="s", sort=True, **events) for name, events in streams_of(kind)]
    assert together(parts) == bits(beside(*whole_sides).collect())


def streams_of(kind: str) -> list[tuple[str, dict[str, Any]]]:
    return [("left", KINDS["points"]), ("right", KINDS[kind])]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(st.lists(told, max_size=20), st.sampled_from(["drop", "adjust"]))
def test_what_is_late_of_any_kind_of_events(kind: str, steps: list[tuple[str, str | None, Any]], late: Late) -> None:
    schema = SCHEMA | {"till": "i64", "even": "i64"}
    sides = [tl.source(name, schema, unit="s", **events) for name, events in streams_of(kind)]
    queries = [beside(*sides), sides[0]["px"].window("4s").mean() - sides[1]["px"].window("6s").mean()]
    lives = [query.session(lateness="2s", late=late) for query in queries]
    for step in steps:
        lives = [after(live, query, *step)[0] for live, query in zip(lives, queries, strict=True)]
        assert known(lives[0]) == known(lives[1])


def test_idle_streams_do_not_hold_others_up() -> None:
    now = 0.0
    query = spread(ticks("left"), ticks("right"))
    live = query.session(idle_after={"right": "10s"}, clock=lambda: now)
    one = {"px": 5.0, "qty": 1, "sym": "a"}
    live.push({"t": 1, **one}, "right")
    assert len(live.push(table([(1, 9.0, 1, "a"), (3, 8.0, 1, "a")]), "left")) == 0
    status = live.status()
    assert (status.holding_back, status.streams["right"].watermark) == ("right", 1)
    now = 11.0
    assert live.status().streams["right"].is_idle
    assert live.status().holding_back == "left"
    blob = live.checkpoint()
    for again in (live, Session.restore(query, blob, clock=lambda: now)):
        assert again.status().streams["right"].is_idle
        assert again.push({"t": 9, **one}, "left")["gap"] == [3.0, 2.0]
        # It is as far as the others are now, in all stages.
        with pytest.raises(tl.LateDataError):
            again.push({"t": 8, **one}, "right")
        again.push({"t": 9, **one}, "right")
        assert not again.status().streams["right"].is_idle
        assert again.idle("right").columns == ["time", "gap"]
        assert again.status().holding_back == "left"


def test_rows_are_computed_together() -> None:
    now = 0.0
    make = QUERIES["beside its rows"]
    query = make(ticks())
    live = query.session(max_batch=3, latency="2s", clock=lambda: now)
    rows = [(t, float(t), 0, "a") for t in range(12)]
    parts = [live.push(table([r])) for r in rows[:8]]
    # The first row tells the columns, so it does not wait.
    assert [len(part) for part in parts] == [0, 0, 0, 1, 0, 0, 3, 0]
    parts.append(live.push(table([rows[8]])))
    assert len(parts[-1]) == 0
    now = 3.0
    parts.append(live.take())
    assert len(parts[-1]) == 2
    again = Session.restore(query, live.checkpoint(), clock=lambda: now)
    rest = [[at.push(table([r])) for r in rows[9:]] + [at.flush(), at.close()] for at in (live, again)]
    assert together([*parts, *rest[0]]) == together([*parts, *rest[1]]) == bits(whole(make, ordered(rows)))


def test_completion() -> None:
    def begun() -> Session:
        live = counts(ticks())["n"].window("12s").sum().session(lateness="3s")
        live.push(table([(2, 1.0, 0, "a"), (12, 2.0, 0, "a"), (15, 4.0, 0, "b")]))
        return live

    assert begun().close("drop").to_dict() == {"time": [], "n": []}
    # All rows count, and time has come to the last: the cell that ends after it is not certain.
    assert begun().close("flush")["time"] == [12]
    assert begun().close("end").to_dict() == {"time": [12, 16], "n": [2, 2]}
    flushed = begun()
    assert flushed.flush()["time"] == [12]
    with pytest.raises(tl.LateDataError):
        flushed.push(table([(15, 1.0, 0, "a")]))
    assert flushed.close()["time"] == [16]
    assert flushed.closed
    with pytest.raises(ValueError, match='"drop", "flush" or "end"'):
        begun().close("now")  # type: ignore[arg-type]
    dropped = begun()
    dropped.close("drop")
    assert dropped.status().streams["ticks"].dropped == 1
    with pytest.raises(tl.TiltError, match="closed"):
        dropped.push(table([(15, 1.0, 0, "a")]))


def test_flush_is_the_same_in_all_stages() -> None:
    make = QUERIES["beside its rows"]
    live = make(ticks()).session(lateness="9s", late="drop")
    first, late, last = [(1, 1.0, 0, "a"), (5, 2.0, 0, "a"), (8, 4.0, 0, "a")], (8, 9.0, 0, "a"), (9, 3.0, 0, "a")
    parts = [live.push(table(first)), live.flush()]
    assert together(parts)["time"] == [5]
    parts += [live.push(table([late, last])), live.close()]
    assert live.status().streams["ticks"].dropped == 1
    assert together(parts) == bits(whole(make, ordered([*first, last])))


def test_status_tells_of_all_stages() -> None:
    live = moves(ticks())["move"].window("50s").sum().session(lateness="5s")
    status = live.status()
    assert (status.until, status.streams["ticks"].watermark) == (None, None)
    live.push(table([(t, 1.0, 0, "a") for t in range(30)]))
    status = live.status()
    assert (status.until, status.streams["ticks"].watermark, status.streams["ticks"].buffered) == (23, 24, 5)
    assert status.holding_back == "ticks"
    # Moves that the window of the last stage looks back to are held besides rows.
    assert status.streams["ticks"].held > 24
    assert status.memory > 0
    assert status.holds_all is None
    everything = moves(ticks())["move"][:].median().session(lateness="5s")
    assert "whole past" in str(everything.status().holds_all)
    live.close()
    assert live.status().until is None


def test_times_of_any_kind() -> None:
    times = [START + dt.timedelta(seconds=second) for second in (0, 1, 1, 3, 6)]
    values, keys = [1.0, 2.0, 4.0, 8.0, 16.0], ["a", "a", "b", "b", "a"]
    for unit in ("s", "ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Paris"):
            schema = {"ts": f"timestamp({unit})", "x": "f64", "k": "utf8"}
            made = [t if zone is None else t.astimezone(ZoneInfo(zone)) for t in times]
            naive = [t.replace(tzinfo=None) if zone is None else t for t in made]
            rows = pa.table({"ts": pa.array(naive, pa.timestamp(unit, zone)), "x": values, "k": keys})

            def make(s: tl.Stream) -> tl.Stream:
                return s.key_by("k").with_columns(d=tl.col("x").diff()).unkey()["d"].window("5s").sum()

            query = make(tl.source("s", schema, time="ts"))
            live = query.session()
            parts = [live.push(rows[i : i + 1]) for i in range(3)]
            live = Session.restore(query, live.checkpoint())
            parts += [live.push(rows[3:4]), live.push(rows[4:]), live.take()]
            assert sum(map(len, parts)) == 2
            until = live.status().until
            assert START + dt.timedelta(seconds=5) <= until.replace(tzinfo=until.tzinfo or UTC) < times[-1]
            parts.append(live.close())
            expected = make(tl.stream(rows, time="ts")).collect()
            assert together(parts) == bits(expected)
            assert parts[-1].schema == expected.schema


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-3000, 6000), max_size=40), st.integers(1, 999), st.integers(0, 999))
def test_grids_finer_than_the_times_of_python(times: list[int], period: int, offset: int) -> None:
    def make(s: tl.Stream) -> tl.Stream:
        cells = s.window(tl.tumbling(f"{period}ns", offset=f"{offset}ns")).agg(n=tl.len(), sum=tl.col("x").sum())
        return cells.key_by("n")["sum"].window("2us").sum()

    times = sorted(times)
    rows = pa.table({"ts": pa.array(times, pa.timestamp("ns")), "x": pa.array(range(len(times)), pa.int64())})
    live = make(tl.source("s", {"ts": "timestamp(ns)", "x": "i64"}, time="ts")).session()
    parts = [live.push(rows[i : i + 1]) for i in range(len(times))]
    parts.append(live.close())
    assert together(parts) == bits(make(tl.stream(rows, time="ts")).collect())


def test_stages_of_different_units() -> None:
    def make(slow: tl.Stream, fast: tl.Stream) -> tl.Stream:
        return slow.key_by("k").with_columns(d=tl.col("x").diff()).unkey()["d"].window("5s").sum() - (
            slow["x"].window("2s").sum() + fast["x"].window("500ms").len()
        )

    schema = {"t": "i64", "x": "f64", "k": "utf8"}
    slow: dict[str, list[Any]] = {"t": [1, 2, 3, 5, 9], "x": [1.0, 2.0, 4.0, 8.0, 16.0], "k": ["a", "a", "b", "b", "a"]}
    fast: dict[str, list[Any]] = {"t": [900, 1000, 2000, 5000, 9000, 9100], "x": [1.0] * 6, "k": ["a"] * 6}
    query = make(tl.source("slow", schema, time="t", unit="s"), tl.source("fast", schema, time="t", unit="ms"))
    expected = make(tl.stream(slow, time="t", unit="s"), tl.stream(fast, time="t", unit="ms")).collect()
    # Numbers are ticks of the whole query.
    live = query.session(lateness={"slow": 2000, "fast": "1s"}, late="drop")
    parts = []
    for i in range(6):
        if i < 5:
            parts.append(live.push({name: values[i] for name, values in slow.items()}, "slow"))
        parts.append(live.push({name: values[i] for name, values in fast.items()}, "fast"))
        live = Session.restore(query, live.checkpoint())
    assert sum(map(len, parts)) > 0
    parts.append(live.advance(8500, "slow"))
    assert live.status().streams["slow"].watermark == 9
    parts.append(live.idle("slow"))
    parts += [live.push({"t": 8, "x": 99.0, "k": "a"}, "slow"), live.close()]
    assert live.status().streams["slow"].dropped == 1
    assert together(parts) == bits(expected)


def test_calendar_days() -> None:
    times = [START + dt.timedelta(hours=hours) for hours in (1, 5, 26, 30, 80, 130)]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "x": [1, 2, 3, 4, 5, 6]})

    def make(s: tl.Stream) -> tl.Stream:
        days = s.window(tl.calendar("1d", tz="Europe/Paris")).agg(n=tl.len(), sum=tl.col("x").sum())
        return days.key_by("n").with_columns(before=tl.col("sum").prev())

    live = make(tl.source("s", {"ts": "timestamp(us)", "x": "i64"}, time="ts")).session()
    parts = [live.push(rows[i : i + 1]) for i in range(6)]
    assert sum(map(len, parts)) > 0
    assert together([*parts, live.close()]) == bits(make(tl.stream(rows, time="ts")).collect())


def test_no_results_of_an_earlier_stage() -> None:
    def make(s: tl.Stream) -> tl.Stream:
        high = s.key_by("sym").with_columns(move=tl.col("px").diff()).filter(tl.col("move") > 100).unkey()
        highest: tl.Stream = tl.coalesce(high["move"].window("5s").sum(), s["px"])
        return highest

    rows = [(t, float(t), 0, "a") for t in range(9)]
    live = make(ticks()).session()
    parts = [live.push(table([r])) for r in rows]
    assert sum(map(len, parts)) == 8
    assert together([*parts, live.close()]) == bits(whole(make, ordered(rows)))
    assert len(make(ticks()).session().close()) == 0


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_columns_are_known_before_a_stage_has_results(zone: str | None) -> None:
    def make(s: tl.Stream) -> tl.Stream:
        high = s.key_by("k").with_columns(d=tl.col("x").diff()).filter(tl.col("d") > 100).unkey()["d"]
        result: tl.Stream = tl.coalesce(high.window(tl.tumbling("2s")).sum(), s["x"].window(tl.tumbling("2s")).sum())
        return result

    times = [START + dt.timedelta(seconds=second) for second in range(9)]
    values = [1.0, 2.0, 3.0, 4.0, 500.0, 6.0, 7.0, 8.0, 9.0]
    rows = pa.table({"ts": pa.array(times, pa.timestamp("us", zone)), "x": values, "k": ["a"] * 9})
    query = make(tl.source("s", {"ts": "timestamp(us)", "x": "f64", "k": "utf8"}, time="ts"))
    live = query.session()
    parts = [live.push(rows[i : i + 1]) for i in range(4)]
    assert sum(map(len, parts)) == 2
    live = Session.restore(query, live.checkpoint())
    parts += [live.push(rows[4:]), live.close()]
    assert together(parts) == bits(make(tl.stream(rows, time="ts")).collect())


def test_functions_of_streams_learn_their_columns_from_the_first_rows() -> None:
    @tl.query
    def wild(ticks: tl.Stream) -> tl.Stream:
        return moves(ticks)["move"].window("5s").std()

    live = wild.session(time="t", unit="s", lateness="2s")
    assert live.streams == ["ticks"]
    rows = ordered([(t, float(t * t % 7), 0, "ab"[t % 2]) for t in range(20)])
    parts = [live.push(rows[:7])]
    live = Session.restore(wild, live.checkpoint())
    parts += [live.push(rows[7:]), live.close()]
    assert together(parts) == bits(whole(wild, rows))


def test_streams_of_one_name() -> None:
    """Two sources that are called alike in different stages are two streams."""

    def make(first: tl.Stream, second: tl.Stream) -> tl.Stream:
        return moves(first)["move"].window("5s").sum() - second["px"].window("4s").sum()

    live = make(ticks(), ticks()).session()
    assert live.streams == ["ticks", "ticks_2"]
    one, two = [(t, float(t), 0, "a") for t in range(9)], [(t, 1.0, 0, "b") for t in range(2, 9)]
    parts = [live.push(table(one), "ticks"), live.push(table(two), "ticks_2")]
    with pytest.raises(tl.LateDataError, match="stream `ticks_2`, row 0") as error:
        live.push(table(two), "ticks_2")
    assert error.value.input == "ticks_2"
    assert together([*parts, live.close()]) == bits(whole(make, ordered(one), ordered(two)))


def test_a_stage_that_two_others_read() -> None:
    def make(s: tl.Stream) -> tl.Stream:
        below = moves(s)
        level = below.with_columns(n=tl.col("move").window("3s").len()).key_by("n").with_columns(p=tl.col("px").prev())
        return level.unkey()["p"].window("4s").sum() - below["move"].window("5s").max()

    live = make(ticks()).session()
    rows = [(t, float(t * t % 11), 0, "ab"[t % 2]) for t in range(30)]
    parts = [live.push(table([r])) for r in rows]
    assert sum(map(len, parts)) > 20
    assert together([*parts, live.close()]) == bits(whole(make, ordered(rows)))

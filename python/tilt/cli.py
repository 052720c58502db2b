"""The command line: ``tilt`` or ``python -m tilt``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tilt import _native, _versions, inputs, plans, sources
from tilt.errors import QueryError, TiltError, suggestion
from tilt.program import Program
from tilt.queries import QueryFunction
from tilt.run import Query
from tilt.streams import Stream
from tilt.table import Table, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tilt.live.session import Session
    from tilt.sources import Source

_SCANS: dict[str, Callable[..., Stream]] = {
    ".parquet": inputs.scan_parquet,
    ".csv": inputs.scan_csv,
    ".arrow": inputs.scan_ipc,
    ".feather": inputs.scan_ipc,
    ".ipc": inputs.scan_ipc,
    ".jsonl": inputs.scan_json,
    ".ndjson": inputs.scan_json,
}
_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_NO_QUERY = "{} defines no query: write a function `query` of streams, decorate one with @tl.query, or make a stream"
_STAGES = ("logical", "optimized", "loops", "llvm", "asm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code: 0, 1 if the query or its rows are wrong, 2 if the arguments are.

    >>> from tilt.cli import main
    >>> main(["explain", "missing.tilt"])
    1
    """
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except BrokenPipeError:
        # Nobody reads the rest: nothing is left to be written when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        print("tilt: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    except Exception as error:
        place = _place(error, getattr(options, "query", None))
        if place is None and not isinstance(error, (TiltError, OSError, TypeError, ValueError)):
            raise
        print(f"tilt: {'' if place is None else f'{place}: '}{_text(error)}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _text(error: Exception) -> str:
    """Give what an exception says, with its kind where that is part of it."""
    if isinstance(error, SyntaxError):
        return error.msg
    says_itself = isinstance(error, (TiltError, OSError, TypeError, ValueError, AttributeError, NameError, ImportError))
    return str(error) if says_itself else f"{type(error).__name__}: {error}"


def _place(error: Exception, query: Path | None) -> str | None:
    """Give file and line of the query that an exception came through, if it did: the innermost one."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if query is not None and frame.filename == str(query)]
    return f"{query}:{lines[-1]}" if lines else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tilt", description="Run, explain and try time-centric queries.")
    parser.add_argument("--version", action="version", version=f"tilt {_native.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="run a query on files")
    _query_arguments(run)
    run.add_argument("--out", type=Path, help="a .parquet, .csv, .arrow or .jsonl file; by default rows are printed")
    run.add_argument("--threads", type=int, help="how many threads to use")
    run.add_argument("--memory", help="about how much memory to use, such as 512MB (half of what there is)")
    run.add_argument("--quiet", action="store_true", help="show no progress")
    _live_arguments(run)
    run.set_defaults(command=_run)

    explain = commands.add_parser("explain", help="show what a query does")
    _query_arguments(explain)
    explain.add_argument("--stage", choices=_STAGES, help="what to show (loops)")
    explain.add_argument("--format", choices=["text", "mermaid", "dot", "json"], default="text")
    explain.add_argument("--analyze", action="store_true", help="run the query, and show what each loop took")
    explain.set_defaults(command=_explain)

    demo = commands.add_parser("demo", help="generate a day of ticks, run two queries, draw them")
    demo.add_argument("--events", type=int, default=1_000_000, help="how many ticks (%(default)s)")
    demo.add_argument("--plot", type=Path, default=Path("tilt-demo.svg"), help="where to draw (%(default)s)")
    demo.set_defaults(command=_demo)

    bench = commands.add_parser("bench", help="compare with the libraries that are installed")
    bench.add_argument("--events", type=int, default=1_000_000, help="how many ticks (%(default)s)")
    bench.set_defaults(command=_bench)

    versions = commands.add_parser("versions", help="print what to send along with a bug report")
    versions.set_defaults(command=lambda _: _versions.show_versions())
    return parser


def _live_arguments(parser: argparse.ArgumentParser) -> None:
    live = parser.add_argument_group(
        "live", "read rows from standard input, or pipes named by --input, and write results as they become certain"
    )
    live.add_argument("--live", action="store_true", help="run as rows come")
    live.add_argument("--from", dest="read", choices=["jsonl", "csv", "ipc"], default="jsonl", help="how rows come")
    live.add_argument("--to", dest="write", choices=["jsonl", "csv", "ipc"], help="how results go (as rows come)")
    live.add_argument("--schema", metavar="NAME:TYPE,...", help="the columns, if the first rows do not tell them")
    live.add_argument("--lateness", help="how long after a row of a later time a row may come, such as 2s")
    live.add_argument("--late", choices=["raise", "drop", "adjust", "revise"], help="what becomes of later ones")
    live.add_argument("--horizon", help="how late a row may be that revises results")
    live.add_argument("--idle-after", help="after how long without rows others do not wait for an input, such as 5s")
    live.add_argument("--max-batch", type=int, metavar="ROWS", help="how many rows are computed together")
    live.add_argument("--latency", help="after how long they are computed at the latest, such as 100ms")
    live.add_argument("--mode", choices=["final", "updates"], default="final", help="when results are given")
    live.add_argument("--close", choices=["end", "flush", "drop"], default="end", help="what is given at the end")


def _query_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", type=Path, help="a .py file with a function `query` or a stream, or a .tilt program")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILES", help="files for an input")
    parser.add_argument("--time", help="the column of times")
    parser.add_argument("--tz", help="the time zone of the times, such as Europe/Paris")
    parser.add_argument("--valid", help="how long a row is true: point, until_next, a time such as 5m, or START,END")
    parser.add_argument("--key", help="the column of keys")
    parser.add_argument("--unit", help="what integer times count: s, ms, us or ns")
    parser.add_argument("--period", help="the distance of samples")
    parser.add_argument("--sort", action="store_true", help="sort rows that are not in order")


def _inputs(options: argparse.Namespace) -> dict[str, Stream]:
    """Give a stream for each ``--input``."""
    found = {}
    valid = _valid(options)
    for given in options.input:
        name, separator, files = given.partition("=")
        if not separator:
            _refuse(f"--input {given} has no name; write --input name=files")
        if options.time is None and isinstance(valid, str):
            _refuse(f"--input {given} needs the column of times; add --time column")
        scan = _SCANS.get(Path(files).suffix.lower())
        if scan is None:
            _refuse(f"what {files} is cannot be told from its name; it may end with {', '.join(_SCANS)}")
        named = ("time", "unit", "tz", "period", "sort")
        events: dict[str, Any] = {option: getattr(options, option) for option in named}
        events["valid"] = valid
        stream = scan(files, name=name, **events)
        found[name] = stream if options.key is None else stream.key_by(options.key)
    return found


def _rows(options: argparse.Namespace) -> dict[str, Source]:
    """Give the source of each ``--input``."""
    return {name: next(iter(stream._sources.values())) for name, stream in _inputs(options).items()}


def _valid(options: argparse.Namespace) -> str | tuple[str, str]:
    """Give how long rows are true: a text, or two columns."""
    given: str = options.valid or "point"
    start, separator, end = given.partition(",")
    return (start, end) if separator else given


def _refuse(message: str) -> NoReturn:
    raise QueryError(message)


def _defined(path: Path) -> Stream | QueryFunction[Any] | Program | Callable[..., object]:
    """Give what a file defines: a program, a stream, or a function of streams."""
    if path.suffix != ".py":
        return Program.parse(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": "tilt_query", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)  # noqa: S102
    queries = [value for value in space.values() if isinstance(value, (QueryFunction, Stream))]
    wanted: object = space.get("query", queries[-1] if queries else None)
    if isinstance(wanted, Stream) or callable(wanted):
        return wanted
    _refuse(_NO_QUERY.format(path))


def _loaded(options: argparse.Namespace) -> Stream | Program:
    """Give the query of a file on the files that it is to run on."""
    wanted = _defined(options.query)
    if isinstance(wanted, Program):
        return wanted
    streams = _inputs(options)
    if isinstance(wanted, Stream):
        return wanted.bind(**streams)
    _check_names(wanted, streams)
    result: object = wanted(**streams)
    if isinstance(result, Stream):
        return result
    _refuse(f"the query of {options.query} must give a Stream, not {type(result).__name__}")


def _check_names(function: Callable[..., object], streams: Iterable[str]) -> None:
    """Refuse inputs that a function does not take, and too few of them."""
    from inspect import signature  # noqa: PLC0415

    known = signature(function).parameters
    if any(parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD} for parameter in known.values()):
        return
    given = list(streams)
    odd = next((name for name in given if name not in known), None)
    if odd is not None:
        _refuse(f"the query has no input `{odd}`{suggestion(odd, known)}; it takes {', '.join(known) or 'none'}")
    for name, parameter in known.items():
        if name not in given and parameter.default is parameter.empty:
            _refuse(f"the query needs an input `{name}`; add --input {name}=files")


def _run(options: argparse.Namespace) -> None:
    if options.live:
        _run_live(options)
        return
    query = _loaded(options)
    settings: dict[str, Any] = {"threads": options.threads, "progress": False if options.quiet else None}
    out: Path | None = options.out
    if out is not None and out.suffix.lower() not in _FORMATS:
        _refuse(f"what to write into {out} cannot be told from its name; it may end with {', '.join(_FORMATS)}")
    if isinstance(query, Program):
        parts = Query(query)._parts_or_whole(_rows(options), options.memory, **settings)
    else:
        parts = query._parts(options.memory, **settings)
    if out is None:
        print(Table(_native.Table.joined([part._handle for part in parts])))  # noqa: T201
        return
    rows = write(parts, out, format=_FORMATS[out.suffix.lower()])
    print(f"{rows:,} rows written to {out}", file=sys.stderr)  # noqa: T201


def _run_live(options: argparse.Namespace) -> None:
    """Run a session between standard input, or pipes, and standard output."""
    from tilt.live import pipes  # noqa: PLC0415

    wanted = _defined(options.query)
    named = ("lateness", "late", "horizon", "idle_after", "max_batch", "latency", "mode", "threads")
    given = {name: getattr(options, name) for name in named}
    given |= {name: getattr(options, name) for name in ("time", "unit", "tz", "period", "key")}
    if options.valid is not None:
        given["valid"] = _valid(options)
    # A clock of plain integers has no units.
    for name in ("lateness", "horizon"):
        if given[name] is not None and given[name].isdigit():
            given[name] = int(given[name])
    if options.time is None and not isinstance(wanted, Stream) and not isinstance(given.get("valid"), tuple):
        _refuse("the rows of a live run need a column of times; add --time column")
    if isinstance(wanted, Stream):
        live = wanted.session(**given)
    elif isinstance(wanted, Program):
        live = Query(wanted).session(**given)
    else:
        function = wanted if isinstance(wanted, QueryFunction) else QueryFunction(wanted)  # type: ignore[arg-type]
        live = function.session(schema=_schema(options.schema), **given)
    sources = _pipes(options.input, live.streams)
    # A service that is stopped ends its output as one that is interrupted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.stdout.flush()
    try:
        pipes.run(live, sources, 1, read=options.read, write=options.write or options.read, policy=options.close)
    finally:
        _tell_late(live)


def _tell_late(live: Session) -> None:
    """Tell how many rows of a session were late, if there were any."""
    if not live.is_begun:
        return
    for name, stream in live.status().streams.items():
        counts = {fate: getattr(stream, fate) for fate in ("dropped", "adjusted", "revised", "overlapping")}
        told = ", ".join(f"{count:,} {fate}" for fate, count in counts.items() if count)
        if told:
            print(f"stream `{name}`: rows {told}; {stream.accepted:,} accepted", file=sys.stderr)  # noqa: T201


def _pipes(given: Iterable[str], streams: Sequence[str]) -> dict[str, int]:
    """Give the descriptor that the rows of each stream come from."""
    found: dict[str, int] = {}
    for text in given:
        name, separator, path = text.partition("=")
        if not separator:
            _refuse(f"--input {text} has no name; write --input name=pipe")
        found[name] = 0 if path == "-" else os.open(path, os.O_RDONLY)
    if not found and len(streams) > 1:
        _refuse(f"say where each input comes from: --input name=pipe, for {' and '.join(streams)}")
    return found or {streams[0]: 0}


def _schema(text: str | None) -> dict[str, str] | None:
    """Give columns that are written as ``ts:timestamp(us),price:f64``."""
    if text is None:
        return None
    columns = [column.partition(":") for column in text.split(",")]
    if not all(name and dtype for name, _, dtype in columns):
        _refuse(f"--schema {text} is no list of columns; write name:type,name:type")
    return {name.strip(): dtype.strip() for name, _, dtype in columns}


def _explain(options: argparse.Namespace) -> None:
    query = _loaded(options)
    if isinstance(query, Stream):
        text = query.explain(options.stage, format=options.format, analyze=options.analyze)
    else:
        text = plans.shown(Query(query), options.stage, options.format, _rows(options) if options.analyze else None)
    print(text.rstrip())  # noqa: T201


def _ticks(events: int) -> Stream:
    try:
        from tilt import generate  # noqa: PLC0415
    except ImportError:
        _refuse("data are generated by NumPy, which is not installed; pip install numpy")
    rows = generate.price_ticks(events, seed=1, rate=max(1.0, events / 22_000)).table()
    return inputs.stream(rows, time="time", name="ticks")


def _trend(price: Stream) -> Stream:
    change = price["-10s":].mean() - price["-20s":].mean()
    return change.filter(change > 0).alias("trend")


def _strength(price: Stream) -> Stream:
    """Give the relative strength index of the closes of minutes."""
    from tilt.windows import tumbling  # noqa: PLC0415

    close = price.window(tumbling("1m")).last()
    change = close - close.shift("1m")
    up, down = change.clip(0, None)["-14m":].mean(), (-change).clip(0, None)["-14m":].mean()
    return (100 - 100 / (1 + up / down)).every("1m").alias("rsi")


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Give the best time of three, and a result."""
    best, result = float("inf"), None
    for _ in range(3):
        begun = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begun)
    return best, result


def _demo(options: argparse.Namespace) -> None:
    from tilt.plots import panels  # noqa: PLC0415

    price = _ticks(options.events)["price"]
    trend, strength = _trend(price), _strength(price)
    for title, stream in (("trend of the last 10 and 20 seconds", trend), ("RSI of minutes", strength)):
        print(f"== {title}\n\n{stream.explain('optimized')}")  # noqa: T201
        took, table = _timed(lambda stream=stream: stream.collect(progress=False))  # type: ignore[misc]
        print(f"{table}\n\n{options.events / took / 1e6:,.1f} million events a second\n")  # noqa: T201
    options.plot.write_text(str(panels([price, trend, strength], 180)), encoding="utf-8")
    print(f"drawn: {options.plot}")  # noqa: T201


def _bench(options: argparse.Namespace) -> None:
    ticks = _ticks(options.events)
    (source,) = ticks._sources.values()
    assert isinstance(source, sources.Rows)  # noqa: S101
    rows = source.table
    price = ticks["price"]
    seconds = {"tilt": _timed(lambda: _trend(price).collect(progress=False))}
    try:
        import polars as pl  # noqa: PLC0415
    except ImportError:
        pass
    else:
        frame = rows.to_polars().lazy()
        mean = pl.col("price").rolling_mean_by
        change = frame.select("time", trend=mean("time", "10s") - mean("time", "20s")).filter(pl.col("trend") > 0)
        seconds["polars"] = _timed(change.collect)
    try:
        series = rows.to_pandas().set_index("time")["price"]
    except ImportError:
        pass
    else:

        def trend() -> Any:  # noqa: ANN401
            change = series.rolling("10s").mean() - series.rolling("20s").mean()
            return change[change > 0]

        seconds["pandas"] = _timed(trend)
    print(f"trend of {options.events:,} ticks, best of three")  # noqa: T201
    for name, (took, result) in seconds.items():
        print(f"  {name:<8}{took * 1e3:9.1f} ms {options.events / took / 1e6:9.1f} M events/s {len(result):>12,} rows")  # noqa: T201

"""What rows come from and results go to: files, iterators, pipes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pytest

import tilt as tl
from tilt.live import CallSink, FileSink, FolderSource, ItemSource, PartSink, PipeSink, PipeSource, Runner, folder
from tilt.live.adapters import as_sink, as_source

PartFormat: TypeAlias = Literal["parquet", "ipc", "csv", "jsonl"]
COLUMNS = tl.Table({"t": [1], "x": [0.5]})[:0]
WRITERS: dict[str, Callable[[tl.Table, Path], None]] = {
    "parquet": tl.Table.write_parquet,
    "arrow": tl.Table.write_ipc,
    "csv": tl.Table.write_csv,
    "jsonl": tl.Table.write_jsonl,
}


def table(*times: int) -> tl.Table:
    return tl.Table({"t": list(times), "x": [t / 2 for t in times]})


class Reading:
    """A folder that is read, also by another process in between."""

    def __init__(self, folder: Path, **options: Any) -> None:  # noqa: ANN401
        self.folder = folder
        self.options = options
        self.position: Any = None
        self.again()

    def again(self) -> None:
        """Go on as another process would."""
        position = json.loads(json.dumps(self.position))
        self._rows = FolderSource(self.folder, **self.options).read(position, COLUMNS)

    def times(self) -> list[int]:
        """Give the times that are new."""
        found: list[int] = []
        for rows, position in self._rows:
            self.position = position
            if rows is None:
                break
            found += rows["t"]  # type: ignore[index]
        return found


@pytest.fixture(autouse=True)
def _look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_REST", 0)


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("restarts", [False, True])
def test_files_are_read_as_they_come(tmp_path: Path, ending: str, restarts: bool) -> None:  # noqa: FBT001
    reading = Reading(tmp_path)
    assert reading.times() == []
    for n in range(3):
        WRITERS[ending](table(2 * n, 2 * n + 1), tmp_path / f"{n}.{ending}")
        if restarts:
            reading.again()
        assert reading.times() == [2 * n, 2 * n + 1]
        assert reading.times() == []


def test_names_tell_the_order_and_what_is_left_out(tmp_path: Path) -> None:
    for n, name in enumerate(["b.jsonl", "a.parquet", ".c.jsonl", "_d.csv", "e.txt", "f.JSONL"]):
        WRITERS.get(name.rpartition(".")[2], tl.Table.write_jsonl)(table(n), tmp_path / name)
    (tmp_path / "g.jsonl").mkdir()
    (tmp_path / "h").mkdir()
    table(7).write_jsonl(tmp_path / "h" / "i.jsonl")
    assert Reading(tmp_path).times() == [1, 0, 5]
    assert Reading(tmp_path, pattern="*.parquet").times() == [1]
    assert Reading(tmp_path, pattern="**/*.jsonl").times() == [0, 7]
    assert Reading(tmp_path, pattern="*.txt", format="jsonl").times() == [4]
    with pytest.raises(tl.FileError, match="name it: format="):
        Reading(tmp_path, pattern="*.txt").times()
    assert Reading(tmp_path / "nowhere").times() == []


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@pytest.mark.parametrize("restarts", [False, True])
def test_files_grow_in_pieces_that_end_anywhere(tmp_path: Path, ending: str, restarts: bool) -> None:  # noqa: FBT001
    WRITERS[ending](table(*range(9)), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    path = tmp_path / f"a.{ending}"
    reading = Reading(tmp_path)
    found = []
    for at in range(0, len(data), 5):
        with path.open("ab") as file:
            file.write(data[at : at + 5])
        if restarts:
            reading.again()
        found += reading.times()
        complete = data[: at + 5].count(b"\n") - (ending == "csv")
        assert found == list(range(max(0, complete)))
    assert found == list(range(9))


def test_a_last_line_without_an_end_counts_when_no_more_comes(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"t": 1, "x": 0.5}\n\n{"t": 2, "x": 1.5}')
    assert Reading(tmp_path).times() == [1]
    assert Reading(tmp_path, follow=False).times() == [1, 2]
    (tmp_path / "b.csv").write_bytes(b"x,t\n0.5,3\n0.5,4")
    assert Reading(tmp_path, follow=False).times() == [1, 2, 3, 4]


def test_lines_of_csv_go_on_inside_of_quotes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'note,t,x\n"a\nb",1,0.5\n"c""\n')
    reading = Reading(tmp_path)
    assert reading.times() == [1]
    with path.open("ab") as file:
        file.write(b'd",2,0.5\nx,3,1\n')
    reading.again()
    assert reading.times() == [2, 3]


def test_long_lines_and_many_rows(tmp_path: Path) -> None:
    wide = json.dumps({"t": 1, "x": 0.5, "note": "n" * 3_000_000})
    narrow = "".join(f'{{"t": {t}, "x": 1.0}}\n' for t in range(2, 100_000))
    (tmp_path / "a.jsonl").write_text(f"{wide}\n{narrow}")
    table(*range(100_000, 200_000)).write_parquet(tmp_path / "b.parquet")
    assert Reading(tmp_path).times() == list(range(1, 200_000))


def test_a_file_that_is_read_in_part_goes_on_there(tmp_path: Path) -> None:
    table(*range(200_000)).write_ipc(tmp_path / "a.arrow")
    rows = FolderSource(tmp_path).read(None, COLUMNS)
    first, position = next(rows)
    rest = FolderSource(tmp_path, follow=False).read(json.loads(json.dumps(position)), COLUMNS)
    times = [t for part, _ in rest for t in part["t"]]  # type: ignore[index]
    assert first["t"] + times == list(range(200_000))  # type: ignore[index]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_half_a_file_waits_for_the_other_half(tmp_path: Path, ending: str) -> None:
    WRITERS[ending](table(1, 2, 3), tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    path = tmp_path / f"a.{ending}"
    reading = Reading(tmp_path)
    for cut in (0, 3, 4, 8, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert reading.times() == []
        with pytest.raises(tl.FileError, match="is not complete"):
            Reading(tmp_path, follow=False).times()
    path.write_bytes(data)
    assert reading.times() == [1, 2, 3]


def test_files_without_rows(tmp_path: Path) -> None:
    for ending, write in WRITERS.items():
        write(COLUMNS, tmp_path / f"a.{ending}")
    (tmp_path / "b.jsonl").touch()
    (tmp_path / "b.csv").touch()
    assert Reading(tmp_path).times() == []
    assert Reading(tmp_path, follow=False).times() == []


def _copied(path: Path) -> None:
    other = path.with_suffix(".copy")
    other.write_bytes(path.read_bytes())
    path.unlink()
    other.rename(path)
    os.utime(path, (1, 1))


CHANGES: dict[str, tuple[str, Callable[[Path], object], str | None]] = {
    "lines: other content": ("jsonl", lambda path: table(5, 6).write_jsonl(path), "not the file any more"),
    "lines: shorter": ("jsonl", lambda path: path.write_bytes(path.read_bytes()[:-3]), "not the file any more"),
    "lines: emptied": ("jsonl", lambda path: path.write_bytes(b""), "not the file any more"),
    "lines: gone": ("jsonl", lambda path: path.unlink(), "is gone"),
    "lines: copied": ("jsonl", _copied, None),
    "CSV: other content": ("csv", lambda path: table(5, 6).write_csv(path), "not the file any more"),
    "Parquet: other content": ("parquet", lambda path: table(5, 6).write_parquet(path), "not the file any more"),
    "Parquet: shorter": ("parquet", lambda path: path.write_bytes(path.read_bytes()[:-3]), "not the file any more"),
    "Parquet: copied": ("parquet", _copied, None),
    "Parquet: gone": ("parquet", lambda path: path.unlink(), None),
    "Arrow: other content": ("arrow", lambda path: table(5, 6, 7).write_ipc(path), "not the file any more"),
    "Arrow: gone": ("arrow", lambda path: path.unlink(), None),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("restarts", [False, True])
def test_files_that_were_read_and_change(tmp_path: Path, what: str, restarts: bool) -> None:  # noqa: FBT001
    ending, change, message = CHANGES[what]
    path = tmp_path / f"a.{ending}"
    WRITERS[ending](table(1, 2), path)
    reading = Reading(tmp_path)
    assert reading.times() == [1, 2]
    change(path)
    if restarts:
        reading.again()
    if message is None:
        assert reading.times() == []
        WRITERS[ending](table(3), tmp_path / f"b.{ending}")
        assert reading.times() == [3]
    else:
        with pytest.raises(tl.FileError, match=message):
            reading.times()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"t": 1, "x": 1}\n{"t": "no", "x": 1}\n', r"a\.jsonl, line 2: "),
        ("a.jsonl", b"nonsense\n", r"a\.jsonl, line 1: "),
        ("a.csv", b"t,x\n1,1\n2,no\n", r"a\.csv, line 3: "),
        ("a.parquet", b"PAR1" + b"\0" * 20 + b"PAR1", r"a\.parquet"),
        ("a.arrow", b"ARROW1\0\0" + b"\xff" * 20 + b"ARROW1", r"a\.arrow"),
    ],
)
def test_content_that_is_wrong_is_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(tl.FileError, match=message):
        Reading(tmp_path).times()


def test_line_numbers_count_what_was_read_before(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"t": 1, "x": 1}\n\n{"t": 2, "x": 1}\n')
    reading = Reading(tmp_path)
    assert reading.times() == [1, 2]
    with path.open("ab") as file:
        file.write(b'{"t": 3, "x": 1}\nnonsense\n')
    reading.again()
    with pytest.raises(tl.FileError, match=r"a\.jsonl, line 5: "):
        reading.times()


def query() -> tl.Stream:
    return tl.source("s", {"t": "i64", "x": "f64"}, time="t")["x"]


def test_types_that_change_between_files(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    tl.Table(pa.table({"t": pa.array([1], pa.int32()), "x": pa.array([1], pa.int16())})).write_parquet(
        place / "a.parquet"
    )
    tl.Table({"x": [1.5], "more": ["?"], "t": [2]}).write_parquet(place / "b.parquet")
    source = FolderSource(place, follow=False)
    Runner(query(), source, tmp_path / "out.jsonl", tmp_path / "state").run()
    assert (tmp_path / "out.jsonl").read_text() == '{"t":1,"x":1.0}\n{"t":2,"x":1.5}\n'
    tl.Table({"t": [3], "x": ["one"]}).write_parquet(place / "c.parquet")
    with pytest.raises(tl.SchemaError, match=r"c\.parquet: .*`x`"):
        Runner(query(), source, tmp_path / "out2.jsonl", tmp_path / "state2").run()
    tl.Table({"t": [3], "y": [1.0]}).write_parquet(place / "c.parquet")
    with pytest.raises(tl.TiltError, match=r"c\.parquet.*`x`"):
        Runner(query(), source, tmp_path / "out3.jsonl", tmp_path / "state3").run()


def test_thousands_of_small_files(tmp_path: Path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    for t in range(2000):
        (place / f"{t:05}.jsonl").write_text(f'{{"t": {t}, "x": {t}}}\n')
    for _ in range(3):
        with Runner(query(), place, tmp_path / "out.jsonl", tmp_path / "state") as runner:
            runner.catch_up()
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["t"] for row in rows] == list(range(1999))


# Files as sinks.


@pytest.mark.parametrize("format_", ["parquet", "ipc", "csv", "jsonl"])
def test_parts_are_numbered_and_come_once(tmp_path: Path, format_: PartFormat) -> None:
    sink = PartSink(tmp_path / "out", format_)
    position = sink.open(None)
    for number in range(3):
        before = position
        position = sink.write(table(number), number + 1)
    # Killed before the last was known to be there, which leaves something.
    (tmp_path / "out" / ".part-00000003.x").touch()
    sink = PartSink(tmp_path / "out", format_)
    assert sink.open(before) == 2
    assert sink.write(table(2), 3) == 3
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [name[:13] for name in names] == [f"part-0000000{n}" for n in range(3)]
    assert Reading(tmp_path / "out", follow=False).times() == [0, 1, 2]
    for position in (None, 0, 1):
        with pytest.raises(tl.StateError, match="is not by this run"):
            PartSink(tmp_path / "out", format_).open(position)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_one_file_grows_and_what_was_cut_is_completed(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"deep/out.{ending}"
    WRITERS[ending](table(1, 2, 3), tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    sink = FileSink(path)
    first = sink.write(table(1, 2), 1) if sink.open(None) == 0 else None
    sink.write(table(3), 2)
    sink.close()
    assert path.read_bytes() == whole
    for left in (whole[:first], whole[: len(whole) - 2], whole, whole[:first] + b"\0\0\0", whole + b"more"):
        path.write_bytes(left)
        sink = FileSink(path)
        assert sink.open(first) == first
        assert sink.write(table(3), 2) == len(whole)
        sink.close()
        assert path.read_bytes() == whole
    for position in (None, len(whole) + 1):
        with pytest.raises(tl.StateError, match="put the file back, or name another one"):
            FileSink(path).open(position)


def test_names_of_sources_and_sinks(tmp_path: Path) -> None:
    assert repr(as_source("a/b*/c.csv")) == "FolderSource('a', 'b*/c.csv')"
    (tmp_path / "a.jsonl").touch()
    assert repr(as_source(tmp_path / "a.jsonl")) == f"FolderSource({str(tmp_path)!r}, 'a.jsonl')"
    assert isinstance(as_source("-"), PipeSource)
    assert isinstance(as_sink("-"), PipeSink)
    assert isinstance(as_sink(print), CallSink)
    source = ItemSource([])
    assert as_source(source) is source
    for rows in (table(1, 2), {"t": [1, 2]}, pa.table({"t": [1, 2]})):
        assert [found for found, _ in as_source(rows).read(None, None)] == [rows]
    for make in (lambda: FileSink("a.parquet"), lambda: PartSink("a", "xml"), lambda: FolderSource("a", format="xml")):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="not"):
            make()


# What a process has.


def gone_through(source: ItemSource, position: int | None = None) -> list[Any]:
    found: list[Any] = []
    for rows, _ in source.read(position, None):
        found += rows if isinstance(rows, list) else [] if rows is None else [rows]
    return found


async def counted(first: int = 0) -> AsyncIterator[dict[str, int]]:
    for t in range(first, 4):
        await asyncio.sleep(0.002)
        yield {"t": t}


def test_items_of_all_kinds() -> None:
    rows = [{"t": t} for t in range(4)]
    kinds: list[Callable[[], Any]] = [
        lambda: rows,
        lambda: tuple(rows),
        lambda: iter(rows),
        lambda: ({"t": t} for t in range(4)),
        lambda: lambda taken: rows[taken:],
        lambda: counted,
        counted,
    ]
    for kind in kinds:
        assert gone_through(ItemSource(kind())) == rows
        assert gone_through(ItemSource(kind()), 3) == rows[3:]
        assert gone_through(ItemSource(kind()), 4) == []
    assert gone_through(ItemSource([table(1), {"t": [2, 3]}, [{"t": 4}]]))[1:] == [{"t": [2, 3]}, {"t": 4}]


def test_positions_count_items() -> None:
    def items() -> Iterator[Any]:
        yield from [{"t": 1}, {"t": 2}, {"t": [3, 4]}, {"t": 5}]

    for rows, position in ItemSource(items()).read(None, None):
        last = position
        assert rows is None or position > 0
    assert last == 4


def test_waiting_for_items_holds_nobody_up() -> None:
    is_over = threading.Event()

    def items() -> Iterator[dict[str, int]]:
        yield {"t": 1}
        is_over.wait()
        yield {"t": 2}

    async def several() -> AsyncIterator[dict[str, int]]:
        yield {"t": 1}
        while not is_over.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        yield {"t": 2}

    for each in (items(), several()):
        is_over.clear()
        rows = ItemSource(each).read(None, None)
        found: list[Any] = []
        while not found:
            found += [row for row, _ in [next(rows)] if row is not None]
        for _ in range(3):
            assert next(rows) == (None, 1)
        is_over.set()
        assert [row for row, _ in rows if row is not None] == [{"t": 2}]


def test_errors_of_items_are_raised() -> None:
    def items() -> Iterator[dict[str, int]]:
        yield {"t": 1}
        raise LookupError

    async def several() -> AsyncIterator[dict[str, int]]:
        yield {"t": 1}
        raise LookupError

    for each in (items(), several()):
        with pytest.raises(LookupError):
            gone_through(ItemSource(each))


def test_items_that_are_left_are_let_go() -> None:
    events = []

    async def items() -> AsyncIterator[dict[str, int]]:
        try:
            yield {"t": 1}
            await asyncio.sleep(60)
        finally:
            events.append("closed")

    rows = ItemSource(items()).read(None, None)
    while next(rows)[0] is None:
        pass
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert events == ["closed"]
    before = threading.active_count()
    rows = ItemSource({"t": t} for t in range(10**9)).read(None, None)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.02)
    assert threading.active_count() <= before


PIPES = """
import sys, tilt as tl
query = tl.source("s", {"t": "i64", "x": "f64"}, time="t")["x"].diff()
format = sys.argv[2]
sources, sink = tl.live.PipeSource(format=format), tl.live.PipeSink(format=format)
tl.live.Runner(query, sources, sink, sys.argv[1], every=0).run()
"""


@pytest.mark.parametrize("format_", ["jsonl", "csv", "ipc"])
def test_standard_input_and_output(tmp_path: Path, format_: str) -> None:
    rows = table(1, 2, 4)
    writer = tl.live.pipes.Writer(format_)  # type: ignore[arg-type]
    data = writer.encode(rows) + writer.finish()
    command = [sys.executable, "-c", PIPES, str(tmp_path / "state"), format_]
    done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=60)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, b"")
    reader = tl.live.pipes.Reader(format_)  # type: ignore[arg-type]
    found = [*reader.decode(done.stdout), *reader.finish()]
    assert [row for part in found for row in part.to_pylist()] == [{"t": 2, "x": 0.5}, {"t": 4, "x": 1.0}]


def test_pipes_answer_while_they_are_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PIPES, str(tmp_path / "state"), "jsonl"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"t": 1, "x": 1}\n{"t": 2, "x": 3}\n{"t": 3, "x": 3}\n{"t": 4')
        assert json.loads(process.stdout.readline()) == {"t": 2, "x": 2.0}
        process.stdin.write(b', "x": 7}')
        process.stdin.close()
        assert [json.loads(line) for line in process.stdout] == [{"t": 3, "x": 0.0}, {"t": 4, "x": 4.0}]
    assert process.returncode == 0


def test_functions_are_called_with_rows_and_a_number(tmp_path: Path) -> None:
    found: list[tuple[int, list[float]]] = []
    rows = [{"t": t, "x": float(t)} for t in range(4)]
    for _ in range(2):
        with Runner(query(), rows, lambda part, number: found.append((number, part["x"])), tmp_path, every=0) as runner:
            runner.run()
    assert [x for _, part in found for x in part] == [0.0, 1.0, 2.0, 3.0]
    assert [number for number, _ in found] == sorted({number for number, _ in found})

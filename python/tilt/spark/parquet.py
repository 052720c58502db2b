"""Parquet files that tasks read themselves.

The driver reads the footers, cuts the timeline by the statistics of row groups, and hands each task the row groups of
its slice and halo. No row goes through the JVM before the query has run on it.
"""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tilt.errors import FileError, QueryError, SchemaError
from tilt.sources import Events
from tilt.spark.boot import shipped
from tilt.spark.cuts import Ends, Slices
from tilt.spark.further import cut_further
from tilt.spark.options import columns_of, events_of
from tilt.spark.records import fields_of, plain_rows, plain_schema, records_of
from tilt.spark.schemas import spark_schema
from tilt.spark.survey import CutInput, cut_input
from tilt.spark.task import QueryTask, TaskInput, as_integers, between, in_order
from tilt.spark.tasks import tasks_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from tilt.spark.packing import Numbers
    from tilt.spark.plan import Bound

_GROUPS = 4
"""How many row groups a slice has at least, by default: it reads those of its halo besides."""
_AT_A_TIME = 16
"""How many footers are read at a time: of files on an object store each takes some round trips."""
_TEXT = 24
"""How many bytes a text is taken to have."""
_TWICE = 2
"""How often a row group is read on average, at most, by a query that could be cut by key."""


@dataclass(frozen=True)
class Footer:
    """A file, and what tells whether it is still the one that was planned for."""

    path: str
    size: int
    rows: int
    counts: tuple[int, ...]
    """How many rows each row group has."""
    columns: tuple[str, ...] = ()
    """Those of the times."""
    times: tuple[Any, ...] = ()
    """The least and the greatest values of these in each row group, as the file has them."""

    @classmethod
    def of(cls, path: str, size: int, metadata: Any, columns: Sequence[str]) -> Footer:  # noqa: ANN401
        """Describe a file by its size in bytes and its footer."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        # Not by the schema of the footer: the two would hold each other until garbage is collected.
        paths = [groups[0].column(number).path_in_schema for number in range(metadata.num_columns)] if groups else []
        places = [paths.index(column) for column in columns if column in paths]
        times = tuple(_edges(group.column(place).statistics) for group in groups for place in places)
        counts = tuple(group.num_rows for group in groups)
        return cls(path, size, metadata.num_rows, counts, tuple(columns), times)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file, and the times in it."""

    file: Footer
    number: int
    rows: int
    first: int
    """The first start, as the column of times has it."""
    last: int
    """The last end."""
    least: int
    """The first end."""


@dataclass(frozen=True)
class ParquetSource:
    """Parquet files, and how their rows become events. See :func:`scan_parquet`."""

    session: SparkSession
    groups: tuple[RowGroup, ...]
    columns: pa.Schema
    events: Events
    ties: tuple[str, ...] = ()
    records: tuple[tuple[str, StructType], ...] = ()
    """The columns that are structs in the files, whose fields are columns here."""

    def schema(self) -> pa.Schema:
        """Give the columns of the files, and of their structs the fields."""
        return self.columns


def scan_parquet(
    session: SparkSession,
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    **events: Any,  # noqa: ANN401
) -> ParquetSource:
    """Name Parquet files whose rows the tasks of :func:`run` read themselves, without the JVM.

    That is several times faster than ``spark.read.parquet``. The footers are read here, the row groups in executors, so
    both must see the files by the same name: on a shared or an object store.

    Parameters
    ----------
    session
        The session that the query runs in.
    path
        A file, a directory, or several: names, or URIs that Arrow's file systems know (``s3://``, ``gs://``, ``hdfs://``).
    columns
        Only these columns, and those of times and the key: files may differ in others, or have some that no stream can
        have. A struct stands for all of its fields, which can be named one by one as well: ``struct.field``.
    **events
        ``time``, ``key``, ``valid``, ``unit``, ``tz``, ``period``, ``overlap`` and ``closed``, as for
        :func:`tilt.stream` and :meth:`tilt.Stream.key_by`.

    Raises
    ------
    SchemaError
        If files differ in their columns, or do not have those of times or those that are named.
    FileError
        If there is no file, or one that is not of Parquet or has no statistics of its times.

    >>> import tilt.spark as ts
    >>> ts.run(query, ts.scan_parquet(spark, "ticks/", time="ts"), slices=200)  # doctest: +SKIP

    """
    told = Events(**events_of("scan_parquet", events, ("columns",)))
    kept = columns_of(columns, (*_times(told), *([] if told.key is None else [told.key])))
    groups: list[RowGroup] = []
    known = None
    records: tuple[tuple[str, StructType], ...] = ()
    paths = [path] if isinstance(path, (str, PathLike)) else path
    names = list(_files([fspath(one) for one in paths]))
    with ThreadPoolExecutor(_AT_A_TIME) as readers:
        scanned = list(readers.map(partial(_scanned, events=told, columns=kept), names))
    for footer, schema, structs, found in scanned:
        if known is None:
            known, records = schema, structs
        elif not schema.equals(known):
            mine, first = ([f"{field.name}: {field.type}" for field in one] for one in (schema, known))
            message = (
                f"{footer.path} has columns {', '.join(mine)}, but the first file {', '.join(first)}; scan them apart, "
                "or name those that all have: columns=[...]"
            )
            raise SchemaError(message)
        groups += found
    if known is None:
        message = f"there is no Parquet file in {path}"
        raise FileError(message)
    # Rows with one time stand in the order in which a local scan reads them: files by their first times.
    begins: dict[str, int] = {}
    for group in groups:
        begins[group.file.path] = min(begins.get(group.file.path, group.first), group.first)
    groups.sort(key=lambda group: (begins[group.file.path], group.file.path, group.number))
    return ParquetSource(session, tuple(groups), known, told, records=records)


@dataclass(frozen=True)
class Share:
    """What a slice reads of an input."""

    groups: tuple[tuple[Footer, tuple[int, ...]], ...]
    """Files and their row groups, in order."""
    after: int
    """Rows that end here or before do not matter: a number as the column of times has it."""
    before: int
    """Nor do those that start here or later."""

    def within(self, other: Share) -> bool:
        """Whether another share has all row groups of this one."""
        return self._numbers() <= other._numbers()

    def until(self, last: Share) -> Share:
        """Give what this slice and those after it read up to one that has no row groups but those of this one."""
        return replace(self, before=last.before)

    def _numbers(self) -> set[tuple[str, int]]:
        return {(file.path, number) for file, numbers in self.groups for number in numbers}


@dataclass(frozen=True)
class DirectTask:
    """Runs a query on slices whose numbers it is given."""

    query: QueryTask
    slices: Slices
    span: tuple[int, int]
    shares: tuple[tuple[Share, ...], ...]
    """Of each slice, what it reads of each input."""
    cuts: tuple[CutInput, ...]
    together: int = 1
    """How many slices are run as one, at most."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the result of slices."""
        readers = [Reader(given) for given in self.query.inputs]
        for first, last in self.runs([number for batch in batches for number in batch.column(0).to_pylist()]):
            shares = [one.until(other) for one, other in zip(self.shares[first], self.shares[last], strict=True)]
            # Of what was run before only the row groups are held that this reads, too.
            rows = {}
            rows = {reader.given.name: reader.read(share) for reader, share in zip(readers, shares, strict=True)}
            part = (self.slices.part(first)[0], self.slices.part(last)[1])
            for some, within in cut_further(self.query, self.cuts, rows, part):
                yield from self.query.compute(some, span=self.span, part=within)

    def runs(self, numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Give the first and the last of slices that are run as one.

        These follow each other and read no row group that the first does not, which is held anyway. Where slices are
        shorter than row groups, they are then run once for each of these, and most have no halo of their own.
        """
        at = 0
        while at < len(numbers):
            first, count = numbers[at], 1
            while count < min(self.together, len(numbers) - at):
                after = numbers[at + count]
                pairs = zip(self.shares[after], self.shares[first], strict=True)
                if after != first + count or not all(share.within(held) for share, held in pairs):
                    break
                count += 1
            yield first, first + count - 1
            at += count


@dataclass
class Reader:
    """Reads what slices need of an input, one after the other: row groups are held as long as the next needs them."""

    given: TaskInput
    held: dict[tuple[str, int], Held] = field(default_factory=dict)

    def read(self, share: Share) -> pa.Table:
        """Read the rows of a share, in order of time."""
        wanted = [(file.path, number) for file, numbers in share.groups for number in numbers]
        self.held = {at: self.held[at] for at in wanted if at in self.held}
        for file, numbers in share.groups:
            missing = [number for number in numbers if (file.path, number) not in self.held]
            for number, rows in zip(missing, read_groups(self.given, file, missing) if missing else [], strict=True):
                self.held[file.path, number] = Held.of(rows, self.given, f"row group {number} of {file.path}")
        tables = [self.held[at].between(self.given, share.after, share.before) for at in wanted]
        times = self.given.events.times
        whole = pa.concat_tables(tables) if tables else self.given.schema.empty_table()
        return in_order(whole, times if isinstance(times, str) else times[1])


@dataclass(frozen=True)
class Held:
    """The rows of a row group."""

    rows: pa.Table
    times: Numbers | None
    """When they are, if they are points in order of time."""

    @classmethod
    def of(cls, rows: pa.Table, given: TaskInput, where: str) -> Held:
        """Look at the times of rows that are from somewhere."""
        # Statistics need not tell how many are missing.
        for name in _times(given.events):
            _refuse_missing(name, rows.column(name).null_count, where)
        column = given.events.times
        times = as_integers(rows.column(column)) if isinstance(column, str) else None
        return cls(rows, times if times is not None and bool((times[1:] >= times[:-1]).all()) else None)

    def between(self, given: TaskInput, after: int, before: int) -> pa.Table:
        """Give the rows that end after and start before some numbers."""
        if self.times is None:
            return between(self.rows, given.events, after, before)
        first = int(np.searchsorted(self.times, after, side="right"))
        return self.rows.slice(first, max(int(np.searchsorted(self.times, before)) - first, 0))


@dataclass(frozen=True)
class Direct:
    """A query that runs on slices of Parquet files."""

    bound: Bound
    slices: int | None
    tasks: int | None
    """How many tasks run them at most, if that is said."""
    warmup: int | None
    imports: tuple[str, ...]

    @property
    def pays(self) -> bool:
        """Whether a query with a key reads about as much as there is, if it is cut by time."""
        if self.bound.fills:
            return False
        try:
            slices = self.cut()
            shares = [share for name in self.bound.inputs for share in self._shares(name, slices)]
        except QueryError:
            return False
        read = sum(len(numbers) for share in shares for _, numbers in share.groups)
        return read <= _TWICE * sum(len(source.groups) for _, _, source in self._sources())

    def cut(self) -> Slices:
        """Give slices of about the same number of rows, which begin where row groups do if these follow each other.

        With more slices than row groups, those do that are about to.
        There may be more of them than were asked for, so that the rows of one are few enough to be held.
        """
        blocks = [
            (group.least * scale, group.last * scale, group.rows)
            for _, scale, source in self._sources()
            for group in source.groups
        ]
        number = max(self.slices or len(blocks) // _GROUPS, -(-self._bytes() // self.bound.memory))
        slices = Slices.by_counts(blocks, number)
        ends = sorted({last for _, last, _ in blocks})
        length = sum(last - least for least, last, _ in blocks)
        hull = ends[-1] - min(least for least, _, _ in blocks)
        if length > 1.1 * hull * len(self.bound.inputs):
            return slices
        if len(ends) < number:
            return slices.snapped(ends)
        snapped = {ends[bisect_left(ends, at)] for at in slices.cuts}
        return Slices(tuple(sorted(snapped - {ends[-1]})))

    def _bytes(self) -> int:
        """Give about how many bytes all rows have that are read: texts are known when they are."""
        found = 0
        for name, _, source in self._sources():
            types = [source.schema().field(column).type for column in self.bound.columns(name)]
            found += sum(group.rows for group in source.groups) * sum(map(_width, types))
        return found

    def _sources(self) -> Iterator[tuple[str, int, ParquetSource]]:
        for name, source in self.bound.inputs.items():
            if isinstance(source, ParquetSource):
                yield name, self.bound.scale(name), source

    def explain(self) -> str:
        """Say how the work is cut."""
        slices = self.cut()
        tasks = self._tasks(slices)
        lines = [f"{len(slices)} slices of the timeline in {tasks} tasks, which read row groups by their statistics"]
        for name, _, source in self._sources():
            rows = sum(group.rows for group in source.groups)
            reads = self._reads(name, slices, tasks)
            lines.append(
                f"~{name}: {self.bound.reach(name)}; columns {', '.join(self.bound.columns(name))}; "
                f"{len(source.groups)} row groups with {rows:,} rows, read {reads} times in all"
            )
        return "\n".join(lines)

    def task(self) -> DirectTask:
        """Give what executors run."""
        slices = self.cut()
        shares = zip(*(self._shares(name, slices) for name in self.bound.inputs), strict=True)
        together = max(self.bound.memory * len(slices) // max(self._bytes(), 1), 1)
        halos = {name: self.bound.halo(name, self.warmup) for name in self.bound.inputs}
        cuts = tuple(cut_input(self.bound, name, halo) for name, halo in halos.items())
        query = self.bound.task(self.imports)
        return DirectTask(query, slices, span_of(self.bound), tuple(shares), cuts, together)

    def frame(self) -> DataFrame:
        """Give the result."""
        task = self.task()
        session = next(iter(self.bound.inputs.values())).session
        numbers = session.range(0, len(task.slices), 1, self._tasks(task.slices))
        return numbers.mapInArrow(shipped(task, self.bound.functions()), spark_schema(self.bound.schema))

    def _tasks(self, slices: Slices) -> int:
        session = next(iter(self.bound.inputs.values())).session
        return min(tasks_for(len(slices), session, self.tasks), self.slices or len(slices))

    def _reads(self, name: str, slices: Slices, tasks: int) -> int:
        """Give how many row groups are read: a task reads one that slices share once, if these follow each other."""
        shares = [
            {(file.path, number) for file, numbers in share.groups for number in numbers}
            for share in self._shares(name, slices)
        ]
        # As Spark deals numbers out.
        edges = [at * len(shares) // tasks for at in range(tasks + 1)]
        before = [set() if at in edges else shares[at - 1] for at in range(len(shares))]
        return sum(len(own - held) for own, held in zip(shares, before, strict=True))

    def _shares(self, name: str, slices: Slices) -> list[Share]:
        """Give what each slice reads of an input."""
        source = scan_of(self.bound, name)
        scale = self.bound.scale(name)
        given = cut_input(self.bound, name, self.bound.halo(name, self.warmup))
        ends = Ends(end * scale for group in source.groups for end in (group.least, group.last))
        first, last = (np.array([getattr(group, edge) for group in source.groups]) for edge in ("first", "last"))
        found = []
        for need in slices.needs(given.halo, ends):
            share = given.limits(*need)
            groups: dict[str, tuple[Footer, list[int]]] = {}
            for at in np.flatnonzero((last > share[0]) & (first < share[1])).tolist():
                file = source.groups[at].file
                groups.setdefault(file.path, (file, []))[1].append(source.groups[at].number)
            found.append(Share(tuple((file, tuple(numbers)) for file, numbers in groups.values()), *share))
        return found


def _width(dtype: pa.DataType) -> int:
    """Give how many bytes a value has, about."""
    try:
        width: int = dtype.bit_width // 8
    except ValueError:
        return _TEXT
    return max(width, 1)


def scan_of(bound: Bound, name: str) -> ParquetSource:
    """Give an input of a query whose inputs are all files."""
    source = bound.inputs[name]
    if not isinstance(source, ParquetSource):
        message = "Parquet files and data frames are not inputs of one query; read all by spark.read.parquet"
        raise QueryError(message)
    return source


def span_of(bound: Bound) -> tuple[int, int]:
    """Give when the run begins and ends."""
    starts, ends = [], []
    for name in bound.inputs:
        source, scale, length = scan_of(bound, name), bound.scale(name), bound.length(name)
        starts += [group.first * scale - (1 if length is None else length) for group in source.groups]
        ends += [group.last * scale for group in source.groups]
    return min(starts), max(ends)


def read_groups(given: TaskInput, file: Footer, numbers: Sequence[int]) -> list[pa.Table]:
    """Read row groups of a file.

    Raises
    ------
    FileError
        If the file is gone, or not the one that was planned for: other rows would be read than there are.
    SchemaError
        If its columns are others.

    """
    names = given.schema.names
    try:
        with _opened(file.path) as handle:
            size = handle.size()
            whole = pq.ParquetFile(handle)
            schema = plain_schema(whole.schema_arrow)
            for column in given.schema:
                if column.name not in schema.names or schema.field(column.name).type != column.type:
                    was = f"when the query was planned: {column.type}"
                    message = f"column `{column.name}` of {file.path} is not what it was {was}; scan the files again"
                    raise SchemaError(message, column=column.name)
            found = Footer.of(file.path, size, whole.metadata, file.columns)
            if found != file:
                what = f"it had {file.rows} rows and {file.size} bytes, and has {found.rows} and {size}"
                if (found.rows, size) == (file.rows, file.size):
                    what = "it has as many rows and bytes as it had, but other times or row groups"
                message = f"{file.path} was written again after the query was planned: {what}; scan the files again"
                raise FileError(message)
            read = (whole.read_row_group(number, names, use_threads=False) for number in numbers)
            return [plain_rows(rows).select(names) for rows in read]
    except MemoryError:
        # Arrow's is one of its own errors, too, but the file is not to blame.
        raise
    except (OSError, pa.ArrowException) as error:
        # An account of some errors has the trace of where they were, others have no text.
        what = next(iter(str(error).splitlines()), type(error).__name__)
        message = f"{file.path} cannot be read any more ({what}); scan the files again"
        raise FileError(message) from None


def _opened(path: str) -> pa.NativeFile:
    system, inner = pa.fs.FileSystem.from_uri(path) if "://" in path else (pa.fs.LocalFileSystem(), path)
    return system.open_input_file(inner)


def _times(events: Events) -> tuple[str, ...]:
    """Give the columns of times."""
    return (events.times,) if isinstance(events.times, str) else events.times


def _scanned(
    path: str, events: Events, columns: Sequence[str] | None
) -> tuple[Footer, pa.Schema, tuple[tuple[str, StructType], ...], list[RowGroup]]:
    """Read a footer, and keep what is needed of it: that of a file with many columns is large."""
    with _opened(path) as file:
        try:
            whole = pq.ParquetFile(file)
        except pa.ArrowInvalid as error:
            message = f"{path} is no Parquet file ({next(iter(str(error).splitlines()), '')}); leave it out"
            raise FileError(message) from None
        given, metadata = whole.schema_arrow.remove_metadata(), whole.metadata
        footer = Footer.of(path, file.size(), metadata, _times(events))
    schema = plain_schema(given)
    below = fields_of(given)
    for column in columns or ():
        if column not in below:
            message = f"{path} has no column `{column}`; it has {', '.join(schema.names)}"
            raise SchemaError(message, column=column)
    kept = schema.names if columns is None else list(dict.fromkeys(leaf for name in columns for leaf in below[name]))
    for column in kept:
        if schema.names.count(column) > 1:
            message = f"two columns of {path} are named `{column}`; rename one, or name others: columns=[...]"
            raise SchemaError(message, column=column)
    groups = [*_groups(footer, metadata, schema, events)]
    if columns is not None:
        schema = pa.schema([schema.field(column) for column in kept])
    return footer, schema, records_of(given), groups


def _edges(statistics: Any) -> tuple[Any, Any] | None:  # noqa: ANN401
    """Give the least and the greatest value of a column in a row group, if they are known."""
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min_raw, statistics.max_raw


def _files(paths: Sequence[str]) -> Iterator[str]:
    """Give the files of directories, in order of their names."""
    for path in paths:
        scheme, separator, _ = path.partition("://")
        system, inner = pa.fs.FileSystem.from_uri(path) if separator else (pa.fs.LocalFileSystem(), path)
        info = system.get_file_info(inner)
        if info.type == pa.fs.FileType.NotFound:
            hint = "; name files and directories, not patterns" if set(path) & set("*?[") else ""
            message = f"there is no file {path}{hint}"
            raise FileError(message)
        if info.type == pa.fs.FileType.File:
            yield path if separator else str(Path(path).absolute())
            continue
        below = system.get_file_info(pa.fs.FileSelector(inner, recursive=True))
        for found in sorted(below, key=lambda found: found.path):
            hidden = found.base_name.startswith(("_", "."))
            if found.type == pa.fs.FileType.File and not hidden:
                yield f"{scheme}://{found.path}" if separator else str(Path(found.path).absolute())


def _groups(file: Footer, metadata: Any, schema: pa.Schema, events: Events) -> Iterator[RowGroup]:  # noqa: ANN401
    name, times = file.path, _times(events)
    start, end = times[0], times[-1]
    for column in (start, end):
        if column not in schema.names:
            message = f"{name} has no column `{column}` for the times; it has {', '.join(schema.names)}"
            raise SchemaError(message, column=column)
        dtype = schema.field(column).type
        if not (pa.types.is_temporal(dtype) or dtype in {pa.int32(), pa.int64()}) or pa.types.is_time(dtype):
            message = (
                f"time column `{column}` of {name} has type {dtype}, and times are timestamps, dates, durations or "
                "integers of 32 or 64 bits; cast it where files are written, or after spark.read.parquet"
            )
            raise SchemaError(message, column=column)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows == 0:
            continue
        first, last, least = (
            _statistic(f"row group {number} of {name}", group, schema, column, edge)
            for column, edge in ((start, "min"), (end, "max"), (end, "min"))
        )
        yield RowGroup(file, number, group.num_rows, first, last, least)


def _refuse_missing(column: str, count: int, where: str) -> None:
    """Refuse times that are null: such rows would be in no slice."""
    if count:
        message = f"time column `{column}` is null in {count} rows of {where}; drop such rows or give them a time"
        raise SchemaError(message, column=column)


def _statistic(where: str, group: Any, schema: pa.Schema, column: str, edge: str) -> int:  # noqa: ANN401
    chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == column)
    statistics = chunk.statistics
    if statistics is not None and statistics.has_null_count:
        _refuse_missing(column, statistics.null_count, where)
    if statistics is None or not statistics.has_min_max:
        message = (
            f"{where} has no statistics of `{column}`; read it by spark.read.parquet, or write it with statistics, in "
            "Spark by spark.sql.parquet.outputTimestampType = TIMESTAMP_MICROS"
        )
        raise FileError(message)
    value = pa.array([getattr(statistics, edge)], schema.field(column).type)
    return int(as_integers(pa.chunked_array([value]))[0])

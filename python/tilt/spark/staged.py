"""Streams of queries that are computed in stages: one session runs all of them, as it does without Spark.

What travels is the text of each stage and how rows become events, without the functions that they call: those are
registered by name in executors, as they are for other queries.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilt.errors import QueryError
from tilt.live.stages import is_staged, stages
from tilt.program import Program
from tilt.spark.inputs import bound, called, input_of
from tilt.spark.plan import Bound, declared
from tilt.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from tilt.live.stages import Stages
    from tilt.run import Layout
    from tilt.spark.plan import Input
    from tilt.spark.task import QueryTask


def bound_to_streams(
    query: object, data: object, events: Mapping[str, Any], layout: Layout | None = None, *, by_key: bool = False
) -> Bound:
    """Give a query on streaming data frames.

    Raises
    ------
    QueryError
        If it is computed in stages, and there is a session for some keys each, as ``by_key`` says.

    """
    if isinstance(query, Stream):
        return Bound(*bound(query, data, events, _refuse), layout)
    stream, known = called(query, data, events)
    if not any(map(is_staged, stream._sources.values())):
        inputs = {name: input_of(name, source, known, _refuse) for name, source in stream._sources.items()}
        return Bound(stream, inputs, layout)
    if by_key and any(given.events.key is not None for _, given in known):
        _refuse(stream, {})
    planned = stages(stream, {})
    inputs = {name: input_of(name, source, known, _refuse) for name, source in planned.sources.items()}
    return Staged(stream, inputs, layout, planned=planned)


def _refuse(stream: Stream, inputs: Mapping[str, Input]) -> DataFrame:
    """Refuse a query whose input is the result of another one."""
    del stream, inputs
    message = (
        "the query is computed in stages, of which those after the first are not parallel by its key; without key= one "
        "session runs all of them, or give the result of one run_stream to another"
    )
    raise QueryError(message)


@dataclass(frozen=True)
class Staged(Bound):
    """A query that is computed in stages. Its inputs are those of the first ones; they have no key."""

    planned: Stages = field(kw_only=True)

    @cached_property
    def programs(self) -> list[Program]:
        """The programs of all stages, after all passes."""
        return [Program.parse(stage.plan.query.explain("optimized")) for stage in self.planned.stages]

    @property
    def texts(self) -> str:
        """All stages, as text."""
        return "\n".join(map(str, self.programs))

    @cached_property
    def stages(self) -> bytes:
        """The query, without the functions that it calls."""
        kept = io.BytesIO()
        _Pickler(kept).dump(self.stream)
        return kept.getvalue()

    def columns(self, name: str) -> list[str]:
        """Give the columns of an input that any stage reads, those of times first."""
        source = self.inputs[name]
        times = source.events.times
        read = [times] if isinstance(times, str) else [*times]
        for stage, program in zip(self.planned.stages, self.programs, strict=True):
            for place, stream in stage.streams.items():
                if stream == name:
                    own = stage.plan.sources[place]
                    read += declared(program, place) or []
                    read += [own.events.key] if own.events.key is not None else []
                    read += [column for column, _ in own._lookups()]
        # Tables that are beside the rows have the others.
        known = source.schema().names
        return [column for column in dict.fromkeys([*read, *source.ties]) if column in known]

    def task(self, imports: tuple[str, ...]) -> QueryTask:
        """Give what executors run."""
        return replace(super().task(imports), text=self.texts)


class _Pickler(pickle.Pickler):
    """Leaves out the functions that streams call."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, Stream):
            return NotImplemented
        restored, (text, sources, columns, name, _) = value.__reduce__()
        return restored, (text, sources, columns, name)

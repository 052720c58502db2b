"""Sessions that do not tell their settings, or have other values than Spark's own, run queries all the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.conf import RuntimeConfig

from queries import KEYED, ONE, ticks
from test_run import by_time_and_key, local, same
from test_streaming import distinct, streamed
from tilt import spark as ts
from tilt.spark import settings
from tilt.spark.run import _SETTINGS, _advise
from tilt.spark.streaming import PROVIDER, keeps_in_rocksdb
from tilt.spark.tasks import tasks_for

NUMBERS = {settings.PARTITIONS, "spark.executor.instances", "spark.executor.cores", "spark.cores.max"}
ASKED = {
    *NUMBERS, *_SETTINGS, "spark.dynamicAllocation.enabled", "spark.sql.session.timeZone",
}  # fmt: skip
"""What tilt asks for."""
Answer = Callable[[str], "str | None"]
_get = RuntimeConfig.get


def refusing(name: str) -> str:
    """Answer as the session of a service does that tells no settings."""
    message = f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available."
    raise AnalysisException(message)


def guarded(name: str) -> str:
    """Answer as the JVM of a shared cluster does."""
    message = f"method get({name}) is not whitelisted"
    raise Py4JError(message)


def automatic(name: str) -> str | None:
    """Answer as a service does that finds numbers itself."""
    return "auto" if name in NUMBERS else None


def answering(answer: Answer) -> Callable[..., str | None]:
    """Give a way to read settings: of those that tilt asks for, what a service says, of others what Spark says."""

    def get(conf: RuntimeConfig, name: str, *default: Any) -> str | None:  # noqa: ANN401
        found = answer(name) if name in ASKED else None
        return _get(conf, name, *default) if found is None else found

    return get


@pytest.fixture(params=[refusing, guarded, automatic])
def session(spark: SparkSession, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Give a session whose settings are not Spark's own."""
    monkeypatch.setattr(RuntimeConfig, "get", answering(request.param))
    # Fewer than there are by default, each of which would be a task.
    monkeypatch.setattr(settings, "_USUAL", 5)
    return spark


def test_no_module_asks_for_what_only_a_driver_has() -> None:
    # Clusters that several people share refuse it. PySpark itself asks for a context where functions are made.
    for path in Path(ts.__file__).parent.glob("*.py"):
        assert not re.search(r"sparkContext|\.rdd\b|\._j\w+", path.read_text("utf-8")), path


@pytest.mark.parametrize("key", [None, "sym"])
def test_frames_are_run(session: SparkSession, key: str | None) -> None:
    table = ticks(np.random.default_rng(3), 200)
    # Nothing is said of settings that are not known: warnings are errors here.
    found = ts.run(KEYED["zscore"], session.createDataFrame(table), time="ts", key=key).toArrow()
    same(found if key is None else by_time_and_key(found, key), local(KEYED["zscore"], {"stream": table}, key=key))
    expected = "5 partitions" if key else "5 slices"
    assert expected in ts.explain(KEYED["zscore"], session.createDataFrame(table), time="ts", key=key)


@pytest.mark.parametrize("how", [{}, {"slices": 4}, {"key": "sym"}, {"key": "sym", "partitions": 2}])
def test_files_are_scanned(session: SparkSession, tmp_path: Path, how: dict[str, Any]) -> None:
    table = ticks(np.random.default_rng(4), 200)
    pq.write_table(table, tmp_path / "ticks.parquet", row_group_size=20)
    found = ts.run(ONE["zscore"], ts.scan_parquet(session, tmp_path, time="ts"), **how).toArrow()
    key = how.get("key")
    same(found if key is None else by_time_and_key(found, key), local(ONE["zscore"], {"stream": table}, key=key))


def test_streams_are_run(session: SparkSession, tmp_path: Path) -> None:
    table = distinct(ticks(np.random.default_rng(5), 100))
    found, late = streamed(session, tmp_path, ONE["zscore"], {"stream": table}, key="sym", lateness="1s")
    same(by_time_and_key(found, "sym"), local(ONE["zscore"], {"stream": table}, key="sym"))
    assert late == 0


def test_times_are_in_the_zone_of_a_session_that_does_not_tell_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "spark.sql.session.timeZone"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "Asia/Tokyo")
    try:
        frame = spark.createDataFrame(ticks(np.random.default_rng(6), 20))
        assert settings.zone(spark) == "Asia/Tokyo"
        monkeypatch.setattr(RuntimeConfig, "get", answering(refusing))
        assert settings.zone(spark) == "Asia/Tokyo"
        assert ts.source(frame, time="ts").schema().field("ts").type == pa.timestamp("us", "Asia/Tokyo")
    finally:
        spark.conf.set(name, before)


class Locked:
    """Settings that can be neither read nor changed."""

    def __init__(self, refuse: Answer) -> None:
        self.refuse = refuse

    def get(self, name: str, *default: object) -> str | None:
        del default
        return self.refuse(name)

    def set(self, name: str, value: str) -> None:
        del value
        self.refuse(name)


@pytest.mark.parametrize("refuse", [refusing, guarded])
def test_settings_that_cannot_be_changed_are_named(refuse: Answer) -> None:
    locked: Any = SimpleNamespace(conf=Locked(refuse))
    with pytest.warns(UserWarning, match=rf"may not change \S+maxBytesPerBatch = .*{PROVIDER} = .*; set it where"):
        ts.tune(locked)
    _advise(locked)
    assert not keeps_in_rocksdb(locked)
    assert keeps_in_rocksdb(locked, untold="RocksDB")


@pytest.mark.parametrize("refuse", [refusing, guarded])
def test_each_slice_is_a_task_where_nothing_is_told_of_cores(refuse: Answer) -> None:
    class Session:
        conf = Locked(refuse)

        def sql(self, text: str) -> Any:  # noqa: ANN401
            return refuse(text)

    assert tasks_for(70, Session()) == 70  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "number"), [("auto", 7), ("", 7), ("0", 7), ("-3", 7), ("3.5", 7), (" 12 ", 12)])
def test_numbers_are_digits(value: str, number: int) -> None:
    session: Any = SimpleNamespace(conf={"spark.x": value})
    assert settings.number(session, "spark.x", 7) == number

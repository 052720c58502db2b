"""Live sessions: the same query, fed as rows arrive.

>>> import tilt as tl
>>> ticks = tl.source("ticks", {"t": "i64", "price": "f64"}, time="t", unit="s")
>>> live = ticks["price"]["-10s":].mean().session(lateness="5s")
>>> live.push({"t": [1, 4, 3], "price": [10.0, 12.0, 14.0]}).to_dict()
{'t': [], 'price': []}
>>> live.push({"t": 20, "price": 11.0}).to_dict()
{'t': [1, 3, 4], 'price': [10.0, 12.0, 12.0]}
>>> live.close().to_dict()
{'t': [20], 'price': [11.0]}

| module | subject |
|---|---|
| ``session`` | :class:`Session`: rows in, results out |
| ``rows``, ``status`` | rows in the forms that Python has; what a session tells about itself |
| ``options`` | what is done about disorder, stream by stream |
| ``plan`` | what a session runs: the compiled query and its streams |
| ``stages``, ``running``, ``relay`` | queries in stages: their plan; what runs of them; all of it as one session |
| ``checkpoint`` | sessions as bytes |
| ``moving`` | :class:`Plot`: a picture that moves with the results |
| ``pipes`` | formats of rows in pieces; sessions between pipes |
| ``runner``, ``state`` | :class:`Runner`: runs that survive; what they keep on disk |
| ``adapters`` | :class:`Source` and :class:`Sink`: what rows come from and results go to |
| ``folder``, ``files``, ``process``, ``kafka`` | sources and sinks: files; iterators, functions and pipes; topics |
"""

from tilt.live.adapters import Sink, Source
from tilt.live.files import FileSink, PartSink
from tilt.live.folder import FolderSource
from tilt.live.kafka import KafkaSink, KafkaSource
from tilt.live.moving import Plot
from tilt.live.process import CallSink, ItemSource, PipeSink, PipeSource
from tilt.live.runner import Runner, RunStatus
from tilt.live.session import Session
from tilt.live.status import Status, StreamStatus

__all__ = [
    "CallSink",
    "FileSink",
    "FolderSource",
    "ItemSource",
    "KafkaSink",
    "KafkaSource",
    "PartSink",
    "PipeSink",
    "PipeSource",
    "Plot",
    "RunStatus",
    "Runner",
    "Session",
    "Sink",
    "Source",
    "Status",
    "StreamStatus",
]

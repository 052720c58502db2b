"""The package around the code."""

import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import tilt as tl
from tilt.generate import Generated
from tilt.queries import QueryFunction


def test_version_is_that_of_the_distribution() -> None:
    assert tl.__version__ == version("pytilt")


def test_package_is_typed() -> None:
    assert files(tl).joinpath("py.typed").is_file()
    assert files(tl).joinpath("_native.pyi").is_file()


def test_everything_public_is_documented() -> None:
    assert tl.__doc__
    for name in tl.__all__:
        assert getattr(tl, name).__doc__, name


def test_everything_public_has_an_example() -> None:
    named = {name: getattr(tl, name) for name in tl.__all__ if name != "__version__"}
    kinds = (
        tl.Stream,
        tl.Expr,
        tl.Window,
        tl.Table,
        tl.Program,
        tl.Query,
        tl.Session,
        tl.Config,
        QueryFunction,
        Generated,
    )
    for kind in kinds:
        named |= {f"{kind.__name__}.{name}": getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    # What only a cluster can run has its examples in the tests of Spark.
    del named["Stream.on_spark"], named["QueryFunction.on_spark"]
    # A field, whose examples are those of what fills it.
    del named["Generated.truth"]
    assert [name for name, value in named.items() if ">>>" not in (inspect.getdoc(value) or "")] == []


def test_nothing_else_need_be_installed() -> None:
    code = """
import sys
for name in ("numpy", "pandas", "polars", "pyarrow", "rich"):
    sys.modules[name] = None
import tilt as tl
from tilt.run import run
from tilt.sources import rows
text = "query q unit tick { input ~x: i64 point  ~y[t] = ~x[t] * 2  output ~y }"
print(run(text, {"x": rows({"t": [1, 2], "x": [1, 10]}, time="t")}, progress=True)["y"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.stdout, done.stderr) == ("[2, 20]\n", "")


def test_show_versions_names_tilt_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    tl.show_versions()
    shown = capsys.readouterr().out
    assert re.search(rf"^tilt +{re.escape(tl.__version__)} \((debug|release)\)$", shown, re.MULTILINE)
    assert re.search(r"^python +3\.", shown, re.MULTILINE)
    assert re.search(r"^pyarrow +\S+", shown, re.MULTILINE)

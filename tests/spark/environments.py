"""Virtual environments that tests make once, in a cache outside of the checkout."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

import tilt as tl
from broker import cache

OLDEST = "4.0.0"
"""The oldest Spark that tilt runs on."""

long = pytest.mark.skipif("TILT_LONG" not in os.environ, reason="takes minutes: make test-spark-long")
"""Tests that are not part of `make test`: they make environments and clusters of their own."""


def here(*packages: str) -> list[str]:
    """Give packages in the versions that are installed here."""
    return [f"{package}=={importlib.metadata.version(package)}" for package in packages]


def environment(name: str, requirements: list[str]) -> Path:
    """Give a virtual environment that has these packages and no other."""
    digest = hashlib.sha256("\n".join(requirements).encode()).hexdigest()[:12]
    made = cache() / "venv" / f"{name}-{digest}"
    made.parent.mkdir(parents=True, exist_ok=True)
    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "done").exists():
            shutil.rmtree(made, ignore_errors=True)
            venv.create(made, with_pip=True)
            subprocess.run([str(made / "bin" / "pip"), "install", "--quiet", *requirements], check=True)
            (made / "done").touch()
    return made


def spark_environment(version: str) -> Path:
    """Give an environment with another Spark, in which these tests can run."""
    needed = here("pyarrow", "numpy", "pytest", "hypothesis")
    return environment(f"spark-{version}", [f"pyspark[connect]=={version}", "pandas<3", *needed])


def packages(made: Path) -> Path:
    """Give the directory that packages are installed in."""
    (found,) = (made / "lib").glob("python*/site-packages")
    return found


def with_tilt(made: Path, version: str | None = None) -> Path:
    """Put tilt into an environment, as its wheel does, or one that says it is of another version."""
    package = packages(made) / "tilt"
    source = Path(tl.__file__).parent
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    for native in package.glob("_native*.so"):
        # A wheel has no debugging symbols either.
        subprocess.run(["strip", "--strip-debug", str(native)], check=True)
    if version is not None:
        with (package / "__init__.py").open("a") as module:
            module.write(f"\n__version__ = {version!r}\n")
    return made

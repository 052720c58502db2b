"""What to send along with a bug report."""

from tilt import _native


def show_versions() -> None:
    """Print the versions of tilt, of Python, of LLVM, and of the packages that tilt works with; and the CPU.

    >>> import tilt as tl
    >>> tl.show_versions()  # doctest: +ELLIPSIS
    tilt ...
    """
    import platform  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    lines = {
        "tilt": f"{_native.__version__} ({_native.BUILD})",
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
    }
    lines["llvm"], lines["cpu"] = _native.machine()
    for package in ("altair", "duckdb", "numba", "numpy", "pandas", "polars", "pyarrow", "pyspark", "rich"):
        try:
            lines[package] = version(package)
        except PackageNotFoundError:
            lines[package] = "not installed"
    for name, value in lines.items():
        print(f"{name:<10}{value}")  # noqa: T201

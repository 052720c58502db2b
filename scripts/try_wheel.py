"""Use an installed wheel: `alone`, for the `demo` with NumPy, or beside `numba`, whose LLVM is another one."""

import os
import subprocess
import sys
from pathlib import Path


def total() -> float:
    """Run a query."""
    import tilt as tl  # noqa: PLC0415

    x = tl.stream({"t": [1, 2, 3], "x": [1.0, 10.0, 100.0]}, time="t")["x"]
    return float(x.window(2).sum().collect()["x"][-1])


def forked() -> None:
    """Run queries in a child of a process that has compiled some."""
    child = os.fork()
    if child == 0:
        os._exit(0 if total() == 110.0 else 1)  # noqa: PLR2004
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"a forked process ended with status {status}")


def alone() -> None:
    """Do what needs no other package."""
    import tilt as tl  # noqa: PLC0415

    if tl._native.BUILD != "release":  # noqa: SLF001
        sys.exit("the wheel holds a debug build")
    print(total())
    forked()
    tl.show_versions()


def demo() -> None:
    """Run the demo, as users do."""
    command = [str(Path(sys.executable).with_name("tilt")), "demo", "--plot", "demo.svg"]
    subprocess.run(command, check=True)  # noqa: S603
    if not Path("demo.svg").read_text(encoding="utf-8").startswith("<svg"):
        sys.exit("the demo drew no picture")


def numba() -> None:
    """Compile by numba and by tilt in turns, in one process, and pass a function of the one to the other."""
    from numba import cfunc, njit  # noqa: PLC0415

    import tilt as tl  # noqa: PLC0415

    def square(x: float) -> float:
        return x * x

    before = njit(square)(3.0)
    between = total()
    native = cfunc("float64(float64)")(square)
    x = tl.stream({"t": [1, 2], "x": [3.0, 5.0]}, time="t")["x"]
    squares = tl.udf(native, args=["f64"], returns="f64", name="square")(x).collect()["x"]
    after = njit(square)(4)
    if (before, between, squares, after) != (9.0, 110.0, [9.0, 25.0], 16):
        sys.exit(f"numba and tilt disturb each other: {before}, {between}, {squares}, {after}")
    forked()
    print("beside numba", squares)


if __name__ == "__main__":
    {"alone": alone, "demo": demo, "numba": numba}[sys.argv[1]]()

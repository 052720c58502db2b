"""Fail when a wheel is too large, needs more than the system's libraries, or shows more than its init function."""

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIMIT = 25_000_000
"""Bytes of a wheel."""
NEEDED = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""What every Linux with glibc has."""
SYSTEM = ("/usr/lib/", "/System/Library/")
"""Where the libraries are that are part of macOS."""
PROJECTS = ("llvm", "libstdc++", "libzstd", "zlib", "libffi", "The Rust standard library", "arrow-array", "parquet")
"""Some of what must be named in the notices."""


def elf(library: bytes) -> tuple[set[str], set[str]]:
    """Give what a shared library of ELF needs and what it exports."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    file = ELFFile(io.BytesIO(library))
    dynamic = file.get_section_by_name(".dynamic")
    needed = {tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
    symbols = file.get_section_by_name(".dynsym").iter_symbols()
    return needed, {s.name for s in symbols if s.name and s["st_shndx"] != "SHN_UNDEF"}


def mach(library: bytes) -> tuple[set[str], set[str]]:
    """Give what a shared library of macOS needs and what it exports, as Apple's tools say."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library)
        file.flush()
        own, listed, symbols = (
            subprocess.run([*tool, file.name], check=True, capture_output=True, text=True).stdout.splitlines()  # noqa: S603
            for tool in (("otool", "-D"), ("otool", "-L"), ("nm", "-gUj"))
        )
    # Both lists begin with the file, and the second one names the library itself among what it needs.
    needed = {line.split(" (")[0].strip() for line in listed[1:]} - {line.strip() for line in own[1:]}
    return needed, {symbol.removeprefix("_") for symbol in symbols if symbol}


def policy(wheel: Path) -> tuple[int, int]:
    """Give the oldest glibc that the wheel runs with, as auditwheel finds it."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    found = re.search(r'"manylinux_(\d+)_(\d+)_', shown)
    if found is None:
        sys.exit(f"auditwheel finds no policy:\n{shown}")
    return int(found[1]), int(found[2])


def main() -> None:
    """Check a wheel."""
    wheel = Path(sys.argv[1])
    problems = []
    size = wheel.stat().st_size
    if size >= LIMIT:
        problems.append(f"it has {size:,} bytes, more than {LIMIT:,}")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        libraries = [name for name in names if name.endswith(".so")]
        library = content.read(libraries[0])
        notices = content.read("tilt/NOTICES.txt").decode() if "tilt/NOTICES.txt" in names else ""
    problems += [f"its notices do not name {project}" for project in PROJECTS if project not in notices]
    if len(libraries) != 1:
        problems.append(f"it has the libraries {libraries}")
    is_elf = library.startswith(b"\x7fELF")
    needed, exported = elf(library) if is_elf else mach(library)
    foreign = needed - NEEDED if is_elf else {path for path in needed if not path.startswith(SYSTEM)}
    if foreign:
        problems.append(f"it needs {', '.join(sorted(foreign))}")
    if exported != {"PyInit__native"}:
        problems.append(f"it exports {', '.join(sorted(exported))}")
    if is_elf:
        oldest = policy(wheel)
        if oldest > (2, 34):
            problems.append(f"it needs glibc {oldest}")
    print(f"{wheel.name}: {size:,} bytes, needs {', '.join(sorted(needed))}")
    if problems:
        sys.exit(f"{wheel}: " + "; ".join(problems))


if __name__ == "__main__":
    main()

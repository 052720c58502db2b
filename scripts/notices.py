"""Print the licences of everything that a wheel contains: the crates, and what is linked from the system."""

import json
import subprocess
import sys
from pathlib import Path

DEBIAN = ("llvm-19-dev", "libstdc++-12-dev", "libzstd-dev", "zlib1g-dev", "libffi-dev")
"""Debian's packages of the archives that scripts/wheel links, and of LLVM."""
HOMEBREW = {"llvm@19": "llvm, with libstdc++, zlib and libffi of the system", "zstd": "libzstd"}
"""Homebrew's packages of what is linked on macOS, and what they are."""


def linked() -> list[dict[str, str]]:
    """Give the crates of others that are compiled into the extension, by name."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    command += ["--no-default-features", "--features", "tilt-python/static-llvm"]
    host = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout  # noqa: S607
    target = next(line.removeprefix("host: ") for line in host.splitlines() if line.startswith("host: "))
    found = subprocess.run([*command, "--filter-platform", target], check=True, capture_output=True)  # noqa: S603
    metadata = json.loads(found.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached: set[str] = set()
    waiting = [identity for identity, package in packages.items() if package["name"] == "tilt-python"]
    while waiting:
        identity = waiting.pop()
        if identity in reached:
            continue
        reached.add(identity)
        # Neither for building nor for tests.
        used = (d for d in nodes[identity]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))
        waiting += [dependency["pkg"] for dependency in used]
    foreign = [packages[identity] for identity in reached if packages[identity]["source"]]
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, str]) -> list[str]:
    """Give the licences and notices that a crate comes with."""
    folder = Path(package["manifest_path"]).parent
    kinds = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")
    files = [path for path in folder.iterdir() if path.name.upper().startswith(kinds) and path.is_file()]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in sorted(files)]


def system() -> list[tuple[str, Path]]:
    """Give what is linked from the system, with the files that have its licence."""
    if sys.platform == "darwin":
        prefix = subprocess.run(["brew", "--prefix"], check=True, capture_output=True, text=True).stdout.strip()  # noqa: S607
        kegs = [(name, Path(prefix, "opt", package)) for package, name in HOMEBREW.items()]
        return [(name, next(keg.glob("LICENSE*"), keg / "LICENSE")) for name, keg in kegs]
    return [(package, Path("/usr/share/doc", package, "copyright")) for package in DEBIAN]


def standard_library() -> str:
    """Give the licence of what rustc links into everything."""
    found = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True)  # noqa: S607
    folder = Path(found.stdout.strip(), "share/doc/rust/licenses")
    texts = [folder / name for name in ("Apache-2.0.txt", "MIT.txt")]
    missing = [str(path) for path in texts if not path.exists()]
    if missing:
        sys.exit(f"{missing[0]} is missing: install Rust with its documentation of licences")
    parts = [path.read_text(encoding="utf-8").strip() for path in texts]
    return "Copyright (c) The Rust Project Contributors. Licensed under Apache-2.0 OR MIT.\n\n" + "\n\n".join(parts)


def main() -> None:
    """Print each text once, under the names of all that it belongs to."""
    holders: dict[str, list[str]] = {}
    for package in linked():
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in texts(package) or [f"Licence: {package['license']}. Authors: {package['repository']}"]:
            holders.setdefault(text, []).append(name)
    holders.setdefault(standard_library(), []).append("The Rust standard library")
    for name, path in system():
        if not path.exists():
            sys.exit(f"{path} is missing: which licence does {name} have?")
        holders.setdefault(path.read_text(encoding="utf-8", errors="replace").strip(), []).append(name)
    print("This wheel contains code of the following projects.")
    for text, names in holders.items():
        print("\n" + "=" * 100 + "\n" + "\n".join(names) + "\n" + "-" * 100 + "\n" + text)


if __name__ == "__main__":
    main()

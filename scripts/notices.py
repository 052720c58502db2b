"""Print the licences of everything that a wheel contains: the crates, and what is linked from the system."""

import json
import subprocess
import sys
from pathlib import Path

SYSTEM = ("llvm-19-dev", "libstdc++-12-dev", "libzstd-dev", "zlib1g-dev")
"""Debian's packages of the archives that scripts/wheel links, and of LLVM."""


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


def main() -> None:
    """Print each text once, under the names of all that it belongs to."""
    holders: dict[str, list[str]] = {}
    for package in linked():
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in texts(package) or [f"Licence: {package['license']}. Authors: {package['repository']}"]:
            holders.setdefault(text, []).append(name)
    for package_name in SYSTEM:
        path = Path("/usr/share/doc") / package_name / "copyright"
        if not path.exists():
            sys.exit(f"{path} is missing: which licence does {package_name} have?")
        holders.setdefault(path.read_text(encoding="utf-8", errors="replace").strip(), []).append(package_name)
    print("This wheel contains code of the following projects.")
    for text, names in holders.items():
        print("\n" + "=" * 100 + "\n" + "\n".join(names) + "\n" + "-" * 100 + "\n" + text)


if __name__ == "__main__":
    main()

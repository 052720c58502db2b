"""Fail when a crate we depend on has a licence that asks for more than attribution."""

import json
import re
import subprocess
import sys

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def permissive(expression: str) -> bool:
    """Whether an SPDX expression can be met by permissive licences alone."""
    # Before SPDX expressions, crates wrote "MIT/Apache-2.0" for a choice.
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))

    def choice() -> bool:
        result = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            result |= conjunction()
        return result

    def conjunction() -> bool:
        result = licence()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            result &= licence()
        return result

    def licence() -> bool:
        name = tokens.pop(0)
        if name == "(":
            result = choice()
            tokens.pop(0)
            return result
        if tokens and tokens[0] == "WITH":
            name = f"{name} {tokens.pop(0)} {tokens.pop(0)}"
        return name in PERMISSIVE

    return choice()


def main() -> None:
    """Check every package of the lock file."""
    metadata = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version", "1"],  # noqa: S607
        check=True,
        stdout=subprocess.PIPE,
    )
    foreign = [package for package in json.loads(metadata.stdout)["packages"] if package["source"]]
    refused = [package for package in foreign if not (package["license"] and permissive(package["license"]))]
    for package in refused:
        print(f"{package['name']} {package['version']}: {package['license'] or 'no licence stated'}")
    if refused:
        sys.exit("these crates are not under a permissive licence")
    print(f"{len(foreign)} crates, all permissive")


if __name__ == "__main__":
    main()

"""How Sphinx builds these pages: ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

project = "tilt"
author = "the tilt developers"
copyright = "the tilt developers"  # noqa: A001 - Sphinx calls it so

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "tilt"
html_static_path = ["_static"]

autodoc_member_order = "bysource"
# Signatures show types as they are written; many are imported for type checkers only and cannot be looked up.
autodoc_typehints = "signature"
napoleon_google_docstring = False


def _head_examples(_app: Sphinx, _kind: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Give examples that follow a section a heading of their own, without which they would belong to it."""
    example = next((i for i, line in enumerate(lines) if line.startswith(">>>")), None)
    if example is not None and any(line.startswith("---") for line in lines[:example]):
        lines[example:example] = ["Examples", "--------"]


def setup(app: Sphinx) -> None:
    """Change docstrings before napoleon reads them."""
    app.connect("autodoc-process-docstring", _head_examples, priority=400)

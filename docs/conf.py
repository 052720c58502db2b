"""How Sphinx builds these pages: ``make docs``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

project = "tilt"
author = "the tilt developers"
copyright = "the tilt developers"  # noqa: A001 - Sphinx calls it so

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "tilt"
html_static_path = ["_static"]

myst_heading_anchors = 3

# Signatures name types that are imported for type checkers only: they are shown as written and not looked up.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = True
napoleon_google_docstring = False
napoleon_use_rtype = False

_SOURCE = re.compile(r"\]\((\.\./)")
_REPOSITORY = "https://github.com/tilt-engine/tilt/blob/main/"


def _outside(_app: object, _name: str, text: list[str]) -> None:
    """Lead links out of this folder to the repository."""
    text[0] = _SOURCE.sub(rf"]({_REPOSITORY}", text[0])


def setup(app: object) -> None:
    """Register what is done to each page before it is parsed."""
    app.connect("source-read", _outside)  # type: ignore[attr-defined]

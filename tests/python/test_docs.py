"""The pages of the documentation print what they say."""

import doctest
import re
from pathlib import Path

import pytest

import tilt as tl

DOCS = Path(__file__).parents[2] / "docs"


def python_only(page: str) -> str:
    """Blank every line outside of ``python`` blocks, so that line numbers stay those of the page."""
    kept, inside = [], False
    for line in page.splitlines():
        is_fence = line.startswith("```")
        kept.append(line if inside and not is_fence else "")
        if is_fence:
            inside = not inside and line == "```python"
    return "\n".join(kept) + "\n"


def run(page: str) -> dict[str, object]:
    """Run a page's blocks; the names that they leave."""
    path = DOCS / page
    session = python_only(path.read_text(encoding="utf-8"))
    example = doctest.DocTestParser().get_doctest(session, {}, page, str(path), 0)
    assert example.examples
    shown: list[str] = []
    assert doctest.DocTestRunner().run(example, out=shown.append, clear_globs=False).failed == 0, "".join(shown)
    return example.globs


@pytest.mark.parametrize("page", ["index.md", "ten_minutes.md", "concepts.md", "cookbook.md", "live.md"])
def test_outputs_of_the_page_are_true(page: str) -> None:
    names = run(page)
    if page == "ten_minutes.md":
        # The picture is that of the code beside it: `docs/pictures.py` draws it.
        assert (DOCS / "_static/live.svg").read_text(encoding="utf-8") == f"{names['plot']}\n"


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    named = re.findall(r"^\.\. auto(?:function|class|exception):: (\w+)$", page, re.MULTILINE)
    assert set(named) == set(tl.__all__) - {"__version__"}


def test_only_python_blocks_are_run() -> None:
    assert python_only("a\n```python\n>>> 1\n1\n```\n```sql\nx\n```\n") == "\n\n>>> 1\n1\n\n\n\n\n"

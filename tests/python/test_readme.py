"""The front page tells the truth."""

import doctest
import re
from pathlib import Path

import tilt as tl

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_query_of_the_front_page_is_valid() -> None:
    (query,) = blocks("text")
    assert tl.Program.parse(query).name == "trend"


def test_python_of_the_front_page_prints_what_it_says() -> None:
    (session,) = blocks("python")
    example = doctest.DocTestParser().get_doctest(session, {}, "README.md", str(README), 0)
    assert example.examples
    shown: list[str] = []
    assert doctest.DocTestRunner().run(example, out=shown.append).failed == 0, "".join(shown)

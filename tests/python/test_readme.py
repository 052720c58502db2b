"""The front page tells the truth."""

import doctest
import re
from pathlib import Path

import tilt as tl
from tilt.sources import rows

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_query_of_the_front_page_is_valid() -> None:
    (query,) = blocks("text")
    assert tl.Program.parse(query).name == "trend"


def test_query_of_the_front_page_gives_what_its_python_gives() -> None:
    (query,) = blocks("text")
    prices = rows({"t": [0, 4, 8, 12], "price": [1.0, 2.0, 6.0, 5.0]}, time="t", unit="s")
    price = tl.stream({"t": [0, 4, 8, 12], "price": [1.0, 2.0, 6.0, 5.0]}, time="t", unit="s")["price"]
    trend = (price["-5s":].mean() - price["-10s":].mean()).alias("trend")
    assert tl.Query(query).run({"price": prices}) == trend.filter(trend > 0).collect()


def test_python_of_the_front_page_prints_what_it_says() -> None:
    (session,) = blocks("python")
    example = doctest.DocTestParser().get_doctest(session, {}, "README.md", str(README), 0)
    assert example.examples
    shown: list[str] = []
    assert doctest.DocTestRunner().run(example, out=shown.append).failed == 0, "".join(shown)

# The native module, crates/tilt-python. Private: everything public is in the Python modules beside this file.
from typing import Final, final

__version__: Final[str]
BUILD: Final[str]

@final
class Program:
    @staticmethod
    def parse(text: str) -> Program: ...
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[tuple[str, str]]: ...
    @property
    def output(self) -> tuple[str, str]: ...

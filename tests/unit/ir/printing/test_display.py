"""What notebooks ask of objects."""

from __future__ import annotations

from xml.etree import ElementTree

from kiln.ir.printing.display import preformatted, pretty


def test_preformatted_text_is_escaped():
    assert ElementTree.fromstring(preformatted("<a>\nb")).text == "<a>\nb"


def test_pretty_breaks_lines():
    class Printer:
        def __init__(self) -> None:
            self.parts: list[str] = []
            self.text = self.parts.append

        def break_(self) -> None:
            self.parts.append("|")

    printer = Printer()
    pretty("a\nb", printer)
    assert printer.parts == ["a", "|", "b"]

"""On which line each table, key and array item of a TOML text stands: tomllib does not say.

Reads only text that tomllib accepted, so it checks nothing itself. Source: TOML 1.0.0.
"""

import re
import tomllib

Place = tuple[str | int, ...]
"""Keys and array indexes from the top: ("nodes", 2, "role")."""

BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
SPACE = re.compile(r"[ \t]*")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:\\.|[^"\\])*"' r"|'[^']*'", re.DOTALL
)
SCALAR = re.compile(r"[^,\]}\r\n#]*")


def find_lines(text: str) -> dict[Place, int]:
    scanner = _Scanner(text)
    scanner.read_document()
    return scanner.lines


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._text = text
        self._position = 0
        self._counted = self._newlines = 0
        """So many line ends before this position: it only grows, and a long text is counted once."""
        self._tables: dict[Place, int] = {}
        """How many [[tables]] of one name there were so far."""

    def read_document(self) -> None:
        table: Place = ()
        while self._peek(BLANK):
            if self._skip("["):
                table = self._read_header(array=self._skip("["))
            else:
                self._read_pair(table)

    def _read_header(self, *, array: bool) -> Place:
        line = self._line()
        place: Place = ()
        *parents, name = self._read_key()
        for parent in parents:
            place = (*place, parent)
            self.lines.setdefault(place, line)
            if place in self._tables:
                place = (*place, self._tables[place] - 1)
        place = (*place, name)
        self.lines.setdefault(place, line)
        if array:
            count = self._tables.get(place, 0)
            self._tables[place] = count + 1
            place = (*place, count)
            self.lines[place] = line
        self._take(re.compile(r"[ \t]*\]+"))
        return place

    def _read_pair(self, table: Place) -> None:
        place, line = table, self._line()
        for key in self._read_key():
            place = (*place, key)
            self.lines.setdefault(place, line)
        self._take(re.compile(r"[ \t]*=[ \t]*"))
        self._read_value(place)

    def _read_key(self) -> list[str]:
        keys = []
        while True:
            self._take(SPACE)
            if self._text[self._position] in "\"'":
                keys.append(tomllib.loads(f"key = {self._take(STRING)}")["key"])
            else:
                keys.append(self._take(BARE_KEY))
            self._take(SPACE)
            if not self._skip("."):
                return keys

    def _read_value(self, place: Place) -> None:
        if self._skip("["):
            index = 0
            while self._peek(BLANK) != "]":
                self.lines[(*place, index)] = self._line()
                self._read_value((*place, index))
                self._peek(BLANK)
                self._skip(",")
                index += 1
            self._skip("]")
        elif self._skip("{"):
            while self._peek(BLANK) != "}":
                self._read_pair(place)
                self._peek(BLANK)
                self._skip(",")
            self._skip("}")
        elif not self._take(STRING):
            self._take(SCALAR)

    def _line(self) -> int:
        self._newlines += self._text.count("\n", self._counted, self._position)
        self._counted = self._position
        return self._newlines + 1

    def _peek(self, skipped: re.Pattern[str]) -> str:
        """The next character after what is skipped; empty at the end."""
        self._take(skipped)
        return self._text[self._position : self._position + 1]

    def _skip(self, character: str) -> bool:
        found = self._text.startswith(character, self._position)
        self._position += found
        return found

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        if match is None:
            return ""
        self._position = match.end()
        return match[0]

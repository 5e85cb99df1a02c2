"""Just enough C++ to look at a source file without compiling it."""

import re
from typing import Iterator, NamedTuple


def _blank(text: str) -> str:
    """The same text with everything but line ends replaced by spaces."""
    return re.sub(r"[^\n]", " ", text)


_TOKEN = re.compile(
    r"""
      (?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))
    | (?P<raw>\b(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?(?:\)(?P=tag)"|\Z))
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<number>\b\d(?:'?[\w.])*)
    | (?P<char>'(?:\\.|[^'\\\n])*')
    """,
    re.VERBOSE | re.DOTALL,
)


def code_of(text: str) -> str:
    """`text` without comments and the insides of literals; every line and column stays."""

    def replace(match: re.Match) -> str:
        token = match.group()
        if match.lastgroup == "number":
            return token.replace("'", "_")
        if match.group("comment") is not None:
            return _blank(token)
        # Raw strings keep their line ends, so that lines can still be counted.
        return '"' + _blank(token[1:-1]) + '"' if len(token) > 1 else token

    return _TOKEN.sub(replace, text)


class Include(NamedTuple):
    line: int
    path: str


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def includes_of(text: str) -> Iterator[Include]:
    for match in _INCLUDE.finditer(text):
        yield Include(line_of(text, match.start()), match.group(1))


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class Function(NamedTuple):
    name: str
    line: int  # where its head begins
    lines: int  # up to the closing brace


_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:")
_NAME = re.compile(
    r"(TEST(?:_F|_P)?\s*\([^)]*\)|operator\s*[^\s\w(]+|~?\w+(?:::~?\w+)*)\s*[({]"
)


def functions_of(text: str) -> Iterator[Function]:
    """Every function with a body, and every lambda at namespace scope.

    What is inside a function (lambdas, local classes) counts as part of it.
    """
    code = _DIRECTIVE.sub(lambda match: _blank(match.group()), code_of(text))
    head_start = 0  # of the declaration being read
    position = 0
    while position < len(code):
        char = code[position]
        if char == "(":
            position = _closing(code, position, "(", ")")
        elif char in ";}":
            head_start = position + 1
        elif char == "{":
            head = code[head_start:position]
            kind = _kind_of(head)
            if kind == "scope":
                head_start = position + 1
            else:
                position = _closing(code, position, "{", "}")
                # `: a_{1}, b_{2} {`: members are being initialised, the body is still to come.
                if kind == "function" and not _goes_on(code, position):
                    yield _function(code, head_start, position)
                if not _goes_on(code, position):
                    head_start = position + 1
        position += 1


def _function(code: str, head_start: int, end: int) -> Function:
    head = code[head_start:end]
    label = _LABEL.match(head)
    if label:
        head_start += label.end()
    while head_start < end and code[head_start].isspace():
        head_start += 1
    name = _NAME.search(code, head_start, end)
    first, last = line_of(code, head_start), line_of(code, end)
    return Function(name.group(1) if name else "lambda", first, last - first + 1)


def _goes_on(code: str, closed: int) -> bool:
    rest = code[closed + 1 : closed + 400].lstrip()
    return rest[:1] in (",", "{")


def _closing(code: str, start: int, opening: str, closing: str) -> int:
    depth = 0
    for position in range(start, len(code)):
        if code[position] == opening:
            depth += 1
        elif code[position] == closing:
            depth -= 1
            if depth == 0:
                return position
    return len(code) - 1


def _kind_of(head: str) -> str:
    """What a brace opens at namespace or class scope: scope, function or other."""
    while _LABEL.match(head):
        head = _LABEL.sub("", head, count=1)
    head = _without_templates(head.strip())
    if re.match(r"(?:inline\s+)?namespace\b|extern\s+\"", head):
        return "scope"
    if re.match(r"enum\b", head):
        return "other"
    if re.match(r"(?:class|struct|union)\b", head) and not _declares_function(head):
        return "scope"
    if _initialises(head):
        return "function" if re.search(r"\[[^\[\]]*\]\s*(?:\(|$)", head) else "other"
    return "function" if "(" in head or re.search(r"\boperator\b", head) else "other"


def _declares_function(head: str) -> bool:
    """`struct Foo Make(...)`: a type name in front of a function."""
    return re.match(r"(?:class|struct|union)\s+\w+[\s*&]+\w+\s*\(", head) is not None


def _without_templates(head: str) -> str:
    while True:
        match = re.match(r"template\s*<", head)
        if not match:
            return head
        end = _closing(head, match.end() - 1, "<", ">")
        head = head[end + 1 :].lstrip()


def _initialises(head: str) -> bool:
    """Whether there is a plain `=` outside of parentheses: `const Row kRows[] = {`."""
    flat = re.sub(r"operator\s*[^\s\w(]+", "operator", head)
    while True:
        flatter = re.sub(r"\([^()]*\)", " ", flat)
        if flatter == flat:
            break
        flat = flatter
    return re.search(r"(?<![=!<>+\-*/%&|^])=(?!=)", flat) is not None

"""Just enough of the proto language to see what has no comment."""

import re
from typing import Iterator, Tuple

_DECLARATION = re.compile(
    r"^\s*(?:(?P<block>message|enum|service|oneof)\s+(?P<name>\w+)\s*\{(?P<closed>\s*\})?"
    r"|rpc\s+(?P<rpc>\w+)\b"
    r"|(?P<value>[A-Z][A-Z0-9_]*)\s*=\s*-?\d+"
    r"|(?:(?:repeated|optional)\s+)?(?:map\s*<[^>]*>|[\w.]+)\s+(?P<field>\w+)\s*=\s*\d+)"
)
_MARK = re.compile(r"\b(?:Required|Optional|Output only)\b|\brequired\b")
_ALL_OUTPUT = re.compile(r"Output only,? all of it\.")


def uncommented(text: str, strict: bool) -> Iterator[Tuple[int, str]]:
    """Line and message of everything without a comment above it.

    strict: fields say whether they are required, too, unless their message says for all.
    """
    comment = ""
    blocks = []  # (kind, its comment says it for all of its fields)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("//"):
            comment += " " + stripped[2:].strip()
            continue
        match = _DECLARATION.match(line)
        if match:
            yield from _judge(match, number, comment, strict, blocks)
            if match.group("block") and not match.group("closed"):
                kind = match.group("block")
                says = (_MARK if kind == "oneof" else _ALL_OUTPUT).search(comment)
                blocks.append((kind, says is not None))
        elif stripped == "}":
            blocks = blocks[:-1]
        comment = ""


def _judge(match, number: int, comment: str, strict: bool, blocks: list):
    what = match.group("name") or match.group("rpc") or match.group("value") or match.group("field")
    request = match.group("block") == "message" and what.endswith("Request")
    if not comment and not request:
        yield number, f"{what} has no comment"
    elif match.group("field") and strict and not any(says for _, says in blocks):
        if not _MARK.search(comment):
            yield number, f"{what} does not say Required, Optional or Output only"

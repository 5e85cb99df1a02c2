"""Runs the vectors of fingerprints and keys with a second implementation, of the standard library.

Whoever writes a client in another language can start from here: what the vectors' fields mean is
in README.md, what is hashed is said in client/include/idempotency/fingerprint.h,
fingerprint_proto.h and keys.h.
"""

import base64
import hashlib
import hmac
import json
import struct
import unittest
from decimal import Decimal
from pathlib import Path

HERE = Path(__file__).parent


class Refused(Exception):
    """What must not get a fingerprint."""


def frame(part: bytes) -> bytes:
    return struct.pack(">Q", len(part)) + part


def digest(form: str, method: str, resource: str, content: bytes, secret: bytes = b"") -> bytes:
    parts = (form.encode(), method.encode(), resource.encode(), content)
    data = b"".join(frame(part) for part in parts)
    if secret:
        return hmac.new(secret, data, hashlib.sha256).digest()
    return hashlib.sha256(data).digest()


# --- JSON -------------------------------------------------------------------------------------


class Number(str):
    """A number as it was written."""


def _pairs(pairs: list) -> dict:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Refused("a name twice")
    return members


def _constant(name: str):
    raise Refused(name)


def canonical_number(text: str) -> str:
    digits_of_exponent = text.lower().partition("e")[2].lstrip("+-").lstrip("0")
    if len(digits_of_exponent) > 9:
        raise Refused("exponent")
    sign, digits, exponent = Decimal(text).as_tuple()
    figures = "".join(map(str, digits)).lstrip("0")
    stripped = figures.rstrip("0")
    exponent += len(figures) - len(stripped)
    if not stripped:
        return "0"
    point = len(stripped) + exponent
    if len(stripped) <= point <= 21:
        plain = stripped + "0" * (point - len(stripped))
    elif 0 < point <= 21:
        plain = stripped[:point] + "." + stripped[point:]
    elif -6 < point <= 0:
        plain = "0." + "0" * -point + stripped
    elif abs(point - 1) > 999_999_999:
        raise Refused("exponent")
    else:
        rest = "." + stripped[1:] if len(stripped) > 1 else ""
        plain = f"{stripped[0]}{rest}e{point - 1:+d}"
    return ("-" if sign else "") + plain


def canonical_json(text: bytes, exclude: list) -> bytes:
    try:
        document = json.loads(
            text.decode("utf-8"), parse_int=Number, parse_float=Number,
            parse_constant=_constant, object_pairs_hook=_pairs)  # fmt: skip
        if _levels(document) > 128:
            raise Refused("levels")
        for pointer in exclude:
            _remove(document, pointer)
        return _write(document).encode("utf-8")
    except (UnicodeError, ValueError, RecursionError) as error:
        raise Refused(str(error)) from error


def _levels(value) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


def _write(value) -> str:
    if isinstance(value, Number):
        return canonical_number(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_write(name)}:{_write(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _remove(document, pointer: str) -> None:
    if not pointer.startswith("/") or "~" in pointer.replace("~0", "").replace("~1", ""):
        raise Refused("pointer")
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    for token in tokens[:-1]:
        if isinstance(document, list):
            index = int(token) if token.isdigit() and str(int(token)) == token else len(document)
            document = document[index] if index < len(document) else None
        else:
            document = document.get(token) if isinstance(document, dict) else None
    if isinstance(document, list):
        raise Refused("element of an array")
    if isinstance(document, dict):
        document.pop(tokens[-1], None)


# --- Protobuf ---------------------------------------------------------------------------------

# type -> number -> (name, kind, how often). Kinds: i u b f d s, or the name of a message type.
# How often: "" singular without presence, "?" with presence, "*" repeated, "map" (kind is then
# the pair of the key's and the value's).
SCHEMAS = {
    "google.protobuf.FloatValue": {1: ("value", "f", "")},
    "google.protobuf.DoubleValue": {1: ("value", "d", "")},
    "google.protobuf.Int32Value": {1: ("value", "i", "")},
    "google.protobuf.UInt64Value": {1: ("value", "u", "")},
    "google.protobuf.BoolValue": {1: ("value", "b", "")},
    "google.protobuf.StringValue": {1: ("value", "s", "")},
    "google.protobuf.BytesValue": {1: ("value", "s", "")},
    "google.protobuf.Duration": {1: ("seconds", "i", ""), 2: ("nanos", "i", "")},
    "google.protobuf.FieldMask": {1: ("paths", "s", "*")},
    "google.protobuf.Any": {1: ("type_url", "s", ""), 2: ("value", "s", "")},
    "google.protobuf.ListValue": {1: ("values", "google.protobuf.Value", "*")},
    "google.protobuf.Struct": {1: ("fields", ("s", "google.protobuf.Value"), "map")},
    "google.protobuf.Value": {
        1: ("null_value", "i", "?"),
        2: ("number_value", "d", "?"),
        3: ("string_value", "s", "?"),
        4: ("bool_value", "b", "?"),
        5: ("struct_value", "google.protobuf.Struct", "?"),
        6: ("list_value", "google.protobuf.ListValue", "?"),
    },
    "google.protobuf.Type": {
        1: ("name", "s", ""),
        2: ("fields", "google.protobuf.Field", "*"),
        3: ("oneofs", "s", "*"),
        4: ("options", "google.protobuf.Option", "*"),
        6: ("syntax", "i", ""),
    },
    "google.protobuf.Field": {1: ("kind", "i", ""), 3: ("number", "i", ""), 4: ("name", "s", "")},
    "google.protobuf.Option": {
        1: ("name", "s", ""),
        2: ("value", "google.protobuf.Any", "?"),
    },
}
ANY = "google.protobuf.Any"
ZERO = {"i": 0, "u": 0, "b": 0, "f": b"\0" * 4, "d": b"\0" * 8, "s": b""}


def _varint(data: bytes, at: int) -> tuple:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at


def read_wire(data: bytes) -> list:
    """(number, wire type, value) in the order of the bytes."""
    fields, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
        else:
            length, at = (8, at) if wire == 1 else (4, at) if wire == 5 else _varint(data, at)
            value, at = data[at : at + length], at + length
        fields.append((number, wire, value))
    return fields


def _elements(kind: str, occurrences: list) -> list:
    """Of a repeated field, packed or not."""
    elements = []
    for wire, value in occurrences:
        if wire == 2 and kind in "iub":
            at = 0
            while at < len(value):
                element, at = _varint(value, at)
                elements.append(element)
        else:
            elements.append(value)
    return elements


def _value(kind: str, value) -> bytes:
    if kind in ("i", "u"):
        return kind.encode() + struct.pack(">Q", value)
    if kind == "b":
        return b"b" + (b"\1" if value else b"\0")
    if kind in ("f", "d"):
        return kind.encode() + value[::-1]
    if kind == "s":
        return b"s" + frame(value)
    if kind == ANY:
        return _any(value)
    return b"m" + frame(canonical_message(kind, value, []))


def _any(data: bytes) -> bytes:
    fields = {number: value for number, _, value in read_wire(data)}
    url, content = fields.get(1, b""), fields.get(2, b"")
    if not url and not content:
        return b"a" + frame(b"") + frame(b"")
    name = url.decode().rsplit("/", 1)[-1]
    if name not in SCHEMAS:
        raise Refused("an unknown type in an Any")
    return b"a" + frame(url) + frame(canonical_message(name, content, []))


def _map(kinds: tuple, occurrences: list) -> bytes:
    entries = {}
    for _, entry in occurrences:
        fields = {number: value for number, _, value in read_wire(entry)}
        key = _value(kinds[0], fields.get(1, ZERO[kinds[0]]))
        entries[key] = _value(kinds[1], fields.get(2, ZERO.get(kinds[1], b"")))
    return b"p" + struct.pack(">Q", len(entries)) + b"".join(k + entries[k] for k in sorted(entries))


def _field(kind, often: str, occurrences: list) -> bytes:
    """Empty: not present."""
    if often == "map":
        return _map(kind, occurrences)
    if often == "*":
        elements = _elements(kind, occurrences)
        return b"r" + struct.pack(">Q", len(elements)) + b"".join(_value(kind, e) for e in elements)
    if kind in ZERO:
        last = occurrences[-1][1]
        return b"" if often == "" and last == ZERO[kind] else _value(kind, last)
    return _value(kind, b"".join(value for _, value in occurrences))


def _unknown(number: int, wire: int, value) -> bytes:
    body = {
        0: lambda: b"V" + struct.pack(">Q", value),
        1: lambda: b"X" + value[::-1],
        2: lambda: b"L" + frame(value),
        5: lambda: b"W" + value[::-1],
    }[wire]()
    return struct.pack(">I", number) + body


def canonical_message(kind: str, data: bytes, exclude: list) -> bytes:
    schema = SCHEMAS[kind]
    known, unknown = {}, []
    for number, wire, value in read_wire(data):
        if number in schema:
            known.setdefault(number, []).append((wire, value))
        else:
            unknown.append((number, wire, value))
    names = {name for name, _, _ in schema.values()}
    if not set(exclude) <= names:
        raise Refused("no such field")
    out = b""
    for number in sorted(known):
        name, field_kind, often = schema[number]
        content = b"" if name in exclude else _field(field_kind, often, known[number])
        if content:
            out += struct.pack(">I", number) + content
    return out + b"".join(_unknown(*field) for field in sorted(unknown, key=lambda f: f[0]))


# --- The vectors ------------------------------------------------------------------------------


def content_of(row: dict) -> bytes:
    if row["form"] == "bytes-1":
        return bytes.fromhex(row["body_hex"])
    if row["form"] == "jcs-1":
        text = bytes.fromhex(row["json_hex"]) if "json_hex" in row else row["json"].encode()
        return canonical_json(text, row["exclude"])
    wire = bytes.fromhex(row["wire_hex"])
    return _any(wire) if row["type"] == ANY else canonical_message(row["type"], wire, row["exclude"])


def load(name: str) -> dict:
    return json.loads((HERE / name).read_text(encoding="utf-8"))


class Vectors(unittest.TestCase):
    def test_fingerprints(self):
        for row in load("fingerprints.json")["rows"]:
            with self.subTest(row["name"], row=row):
                if row.get("refused"):
                    self.assertRaises(Refused, content_of, row)
                    continue
                content = content_of(row)
                if "canonical" in row:
                    self.assertEqual(content.decode(), row["canonical"])
                if "content_hex" in row:
                    self.assertEqual(content.hex(), row["content_hex"])
                secret = bytes.fromhex(row.get("secret_hex", ""))
                found = digest(row["form"], row["method"], row["resource"], content, secret)
                self.assertEqual(found.hex(), row["digest_hex"])
                algorithm = ("hmac-" if secret else "") + "sha256/" + row["form"]
                if row.get("key_id"):
                    algorithm += ":" + row["key_id"]
                self.assertEqual(algorithm, row["algorithm"])

    def test_same_and_different(self):
        digests = {row["name"]: row.get("digest_hex") for row in load("fingerprints.json")["rows"]}
        for group in load("fingerprints.json")["same"]:
            self.assertEqual(len({digests[name] for name in group}), 1, group)
        for group in load("fingerprints.json")["different"]:
            self.assertEqual(len({digests[name] for name in group}), len(group), group)

    def test_keys(self):
        for row in load("provider_keys.json")["provider_keys"]:
            with self.subTest(row["name"], row=row):
                parts = (row["namespace"], row["scope"], row["key"])
                raw = hashlib.sha256(b"".join(frame(part.encode()) for part in parts)).digest()
                text = base64.urlsafe_b64encode(raw).decode().rstrip("=")
                self.assertEqual(text, row["provider_key"])
        for row in load("provider_keys.json")["derived_keys"]:
            with self.subTest(row["name"], row=row):
                parts = ("derive-1", row["domain_label"], row["business_id"])
                raw = hashlib.sha256(b"".join(frame(part.encode()) for part in parts)).digest()
                self.assertEqual(raw.hex(), row["key"])


if __name__ == "__main__":
    unittest.main()

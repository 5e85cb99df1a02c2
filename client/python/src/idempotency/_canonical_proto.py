"""The content of a protobuf message that is hashed: client/include/idempotency/fingerprint_proto.h
has its grammar.

It is read from the serialized bytes by the message's descriptor, and not field by field through
the message: so nothing is lost of what the schema does not know, with any version of protobuf.
"""

from __future__ import annotations

import struct
from typing import Any, Iterable, Iterator, NamedTuple

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from .errors import InvalidFingerprint
from .keys import frame

_MAX_LEVELS = 100
_ANY = "google.protobuf.Any"
_MASK = 0xFFFFFFFFFFFFFFFF
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)

_F = FieldDescriptor
_ZIGZAG = frozenset({_F.TYPE_SINT32, _F.TYPE_SINT64})
_SIGNED = frozenset({_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_ENUM, _F.TYPE_SFIXED32, _F.TYPE_SFIXED64})
_UNSIGNED = frozenset({_F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_FIXED32, _F.TYPE_FIXED64})
_TEXT = frozenset({_F.TYPE_STRING, _F.TYPE_BYTES})
_MESSAGES = frozenset({_F.TYPE_MESSAGE, _F.TYPE_GROUP})

# Names below one another; a name that is left out wholly has no names below it.
_Excluded = dict[str, Any]


class _Occurrence(NamedTuple):
    """One field on the wire. value: an int for numbers, else bytes (a group's: its fields)."""

    number: int
    wire: int
    value: Any


def _refuse(problem: str) -> InvalidFingerprint:
    return InvalidFingerprint(f"the message can have no fingerprint: {problem}")


# --- The wire -------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & _MASK, at


def _end_of_group(data: bytes, at: int) -> tuple[int, int]:
    """Where its fields end, and where what follows it begins."""
    while True:
        begin = at
        tag, at = _varint(data, at)
        if tag & 7 == _END_GROUP:
            return begin, at
        _, at = _value_at(data, at, tag & 7)


def _value_at(data: bytes, at: int, wire: int) -> tuple[Any, int]:
    if wire == _VARINT:
        return _varint(data, at)
    if wire == _FIXED64:
        return int.from_bytes(data[at : at + 8], "little"), at + 8
    if wire == _FIXED32:
        return int.from_bytes(data[at : at + 4], "little"), at + 4
    if wire == _GROUP:
        end, after = _end_of_group(data, at)
        return data[at:end], after
    length, at = _varint(data, at)
    return data[at : at + length], at + length


def _read(data: bytes) -> Iterator[_Occurrence]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _value_at(data, at, tag & 7)
        yield _Occurrence(tag >> 3, tag & 7, value)


def _unknown(fields: Iterable[_Occurrence]) -> bytes:
    # Those of one number keep their order: they may be elements of one list.
    return b"".join(_unknown_field(field) for field in sorted(fields, key=lambda f: f.number))


def _unknown_field(field: _Occurrence) -> bytes:
    head = struct.pack(">I", field.number)
    if field.wire == _VARINT:
        return head + b"V" + struct.pack(">Q", field.value)
    if field.wire == _FIXED32:
        return head + b"W" + struct.pack(">I", field.value)
    if field.wire == _FIXED64:
        return head + b"X" + struct.pack(">Q", field.value)
    if field.wire == _GROUP:
        return head + b"G" + frame(_unknown(_read(field.value)))
    return head + b"L" + frame(field.value)


# --- What the schema says -------------------------------------------------------------------------


def _is_map(field: Any) -> bool:
    return (
        field.label == _F.LABEL_REPEATED
        and field.type == _F.TYPE_MESSAGE
        and bool(field.message_type.GetOptions().map_entry)
    )


def _find(descriptor: Any, number: int) -> Any:
    """The field or extension of that number; None: the schema does not know it."""
    field = descriptor.fields_by_number.get(number)
    if field is None and descriptor.is_extendable:
        try:
            field = descriptor.file.pool.FindExtensionByNumber(descriptor, number)
        except KeyError:
            return None
    return field


def _is_unknown_enum(field: Any, occurrence: _Occurrence) -> bool:
    """Closed enums (proto2) keep a number that they do not know among the unknown fields."""
    if field.type != _F.TYPE_ENUM or occurrence.wire != _VARINT:
        return False
    closed = getattr(field.enum_type, "is_closed", None)
    if closed is None:
        closed = field.enum_type.file.syntax == "proto2"
    number = occurrence.value - (1 << 64) if occurrence.value >> 63 else occurrence.value
    return bool(closed) and number not in field.enum_type.values_by_number


def _excluded(paths: Iterable[str], root: Any) -> _Excluded:
    tree: _Excluded = {}
    whole: list[tuple[_Excluded, str]] = []
    for path in paths:
        descriptor, node, names = root, tree, path.split(".")
        for i, name in enumerate(names):
            if descriptor is None or descriptor.full_name == _ANY:
                raise _refuse(f'exclude: "{path}" goes on behind a value that has no fields of its own')
            field = descriptor.fields_by_name.get(name)
            if field is None:
                raise _refuse(f'exclude: "{path}" names no field of {descriptor.full_name}')
            if i + 1 == len(names):
                whole.append((node, name))
            node = node.setdefault(name, {})
            behind = field.message_type.fields_by_number[2] if _is_map(field) else field
            descriptor = behind.message_type
    # Last, as a path may go on behind one that ends earlier.
    for node, name in whole:
        node[name] = None
    return tree


# --- Writing --------------------------------------------------------------------------------------


def _scalar(field: Any, value: Any) -> bytes:
    kind = field.type
    if kind in _TEXT:
        return b"s" + frame(value)
    if kind in _ZIGZAG:
        return b"i" + struct.pack(">q", (value >> 1) ^ -(value & 1))
    if kind == _F.TYPE_SFIXED32:
        return b"i" + struct.pack(">q", value - (1 << 32) if value >> 31 else value)
    if kind in _SIGNED:
        return b"i" + struct.pack(">Q", value)
    if kind in _UNSIGNED:
        return b"u" + struct.pack(">Q", value)
    if kind == _F.TYPE_BOOL:
        return b"b" + (b"\1" if value else b"\0")
    if kind == _F.TYPE_FLOAT:
        return b"f" + struct.pack(">I", value)
    return b"d" + struct.pack(">Q", value)


def _elements(field: Any, occurrences: list[_Occurrence]) -> list[Any]:
    """Of a repeated field, packed or not."""
    if field.type in _TEXT or field.type in _MESSAGES:
        return [occurrence.value for occurrence in occurrences]
    wire = _VARINT
    if field.type in (_F.TYPE_FIXED64, _F.TYPE_SFIXED64, _F.TYPE_DOUBLE):
        wire = _FIXED64
    elif field.type in (_F.TYPE_FIXED32, _F.TYPE_SFIXED32, _F.TYPE_FLOAT):
        wire = _FIXED32
    elements: list[Any] = []
    for occurrence in occurrences:
        if occurrence.wire != _LENGTH:
            elements.append(occurrence.value)
            continue
        at = 0
        while at < len(occurrence.value):
            element, at = _value_at(occurrence.value, at, wire)
            elements.append(element)
    return elements


class _Writer:
    def __init__(self) -> None:
        self._level = 0

    def message(self, descriptor: Any, data: bytes, excluded: _Excluded) -> bytes:
        """Its fields alone."""
        self._level += 1
        if self._level > _MAX_LEVELS:
            raise _refuse(f"it has more than {_MAX_LEVELS} levels")
        known: dict[int, tuple[Any, list[_Occurrence]]] = {}
        unknown: list[_Occurrence] = []
        for occurrence in _read(data):
            field = _find(descriptor, occurrence.number)
            if field is None or _is_unknown_enum(field, occurrence):
                unknown.append(occurrence)
            else:
                known.setdefault(occurrence.number, (field, []))[1].append(occurrence)
        out = b""
        for number in sorted(known):
            field, occurrences = known[number]
            inside = {} if field.is_extension else excluded.get(field.name, {})
            if inside is not None:
                out += struct.pack(">I", number) + self._field(field, occurrences, inside)
        self._level -= 1
        return out + _unknown(unknown)

    def value(self, field: Any, value: Any, excluded: _Excluded) -> bytes:
        if field.type not in _MESSAGES:
            return _scalar(field, value)
        return self.submessage(field.message_type, value, excluded)

    def submessage(self, descriptor: Any, data: bytes, excluded: _Excluded) -> bytes:
        if descriptor.full_name == _ANY:
            return self._any(descriptor, data)
        return b"m" + frame(self.message(descriptor, data, excluded))

    def _field(self, field: Any, occurrences: list[_Occurrence], excluded: _Excluded) -> bytes:
        if _is_map(field):
            return self._map(field, occurrences, excluded)
        if field.label != _F.LABEL_REPEATED:
            return self.value(field, occurrences[-1].value, excluded)
        elements = _elements(field, occurrences)
        values = b"".join(self.value(field, element, excluded) for element in elements)
        return b"r" + struct.pack(">Q", len(elements)) + values

    def _map(self, field: Any, occurrences: list[_Occurrence], excluded: _Excluded) -> bytes:
        key, value = (field.message_type.fields_by_number[number] for number in (1, 2))
        entries: dict[bytes, bytes] = {}
        for occurrence in occurrences:
            found = {inner.number: inner.value for inner in _read(occurrence.value)}
            none = b"" if value.type in _TEXT or value.type in _MESSAGES else 0
            key_bytes = self.value(key, found.get(1, b"" if key.type in _TEXT else 0), {})
            entries[key_bytes] = self.value(value, found.get(2, none), excluded)
        parts = b"".join(name + entries[name] for name in sorted(entries))
        return b"p" + struct.pack(">Q", len(entries)) + parts

    def _any(self, descriptor: Any, data: bytes) -> bytes:
        """What is in an Any was serialized by somebody, in whatever order: it is read again."""
        fields = {occurrence.number: occurrence.value for occurrence in _read(data)}
        type_url, content = fields.get(1, b""), fields.get(2, b"")
        if not type_url and not content:
            return b"a" + frame(b"") + frame(b"")
        name = type_url.decode("utf-8", "replace").rpartition("/")[2]
        try:
            inner = descriptor.file.pool.FindMessageTypeByName(name)
        except KeyError:
            raise _refuse(
                "a google.protobuf.Any holds a type that is not known here; exclude its field, or "
                "import the type"
            ) from None
        try:
            again = _class_of(inner).FromString(content).SerializePartialToString()
        except DecodeError:
            raise _refuse("a google.protobuf.Any holds something else than it says") from None
        return b"a" + frame(type_url) + frame(self.message(inner, again, {}))


def _class_of(descriptor: Any) -> Any:
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(descriptor.file.pool).GetPrototype(descriptor)


def canonical_message(message: Message, exclude: Iterable[str]) -> bytes:
    descriptor = message.DESCRIPTOR
    excluded = _excluded(exclude, descriptor)
    data = message.SerializePartialToString()
    writer = _Writer()
    if descriptor.full_name == _ANY:
        return writer.submessage(descriptor, data, excluded)
    return writer.message(descriptor, data, excluded)

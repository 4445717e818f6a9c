"""The parts of a component: takes out what no host reads."""

_CUSTOM, _MODULE, _COMPONENT = 0, 1, 4
_HEADER = 8


def smaller(component: bytes) -> bytes:
    """A component without the names of its functions, which are for debuggers of WebAssembly."""
    return b"".join([component[:_HEADER], *_sections(component, is_component=True)])


def _sections(binary: bytes, *, is_component: bool) -> list[bytes]:
    found, at = [], _HEADER
    while at < len(binary):
        kind, (size, begin) = binary[at], _number(binary, at + 1)
        content, at = binary[begin : begin + size], begin + size
        if kind == _CUSTOM and _is_names(content):
            continue
        if is_component and kind in (_MODULE, _COMPONENT):
            content = b"".join([content[:_HEADER], *_sections(content, is_component=kind == _COMPONENT)])
        found.append(bytes([kind]) + _written(len(content)) + content)
    return found


def _is_names(content: bytes) -> bool:
    length, begin = _number(content, 0)
    return content[begin : begin + length] in (b"name", b"component-name")


def _number(binary: bytes, at: int) -> tuple[int, int]:
    """A number in LEB128, and where the next byte is."""
    value = shift = 0
    while True:
        byte = binary[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _written(number: int) -> bytes:
    found = bytearray()
    while True:
        number, byte = number >> 7, number & 0x7F
        found.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(found)

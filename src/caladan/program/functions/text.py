"""Functions of text. Characters are counted, not bytes, and places from 1, as in SQL."""

from __future__ import annotations

import hashlib
import zlib
from functools import partial
from typing import Any, Final
from urllib.parse import quote_plus, unquote_to_bytes

from caladan.program.functions.row import FunctionRow

_LONGEST: Final = 1 << 30
"""The most characters that a function makes of a text."""


def int32(sf: Any, column: Any) -> Any:
    """A column of whole numbers as Spark's functions of text take them: none needs more bits."""
    least, most = sf.lit(-(2**31)).cast("long"), sf.lit(2**31 - 1).cast("long")
    return sf.greatest(least, sf.least(most, column)).cast("int")


def _is_ascii(texts: Any) -> bool:
    data = texts.buffers()[2]
    return data is None or bytes(data).isascii()


def _arrow_case(name: str) -> Any:
    """Upper or lower case; letters that are not ASCII's are left to Python: some become several."""
    return lambda pc, t: getattr(pc, name)(t) if _is_ascii(t) else None


def _is_array(value: Any) -> bool:
    return hasattr(value, "buffers")


# ── Parts ────────────────────────────────────────────────────────────────────────────────────────


def _make_join(*given: Any) -> Any:
    if isinstance(given[0], str):
        return "".join(given)
    return tuple(each for items in given for each in items)


def _substring(text: str, start: int, length: int = _LONGEST) -> str:
    if start > 0 <= length:
        return text[start - 1 : start - 1 + length]
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _arrow_substring(pc: Any, text: Any, start: Any, length: Any = _LONGEST) -> Any:
    if not _is_array(text) or _is_array(start) or _is_array(length) or not start > 0 <= length:
        return None
    return pc.utf8_slice_codeunits(text, start - 1, min(start - 1 + length, _LONGEST))


def _arrow_left(pc: Any, text: Any, count: Any) -> Any:
    if not _is_array(text) or _is_array(count):
        return None
    return pc.utf8_slice_codeunits(text, 0, min(max(count, 0), _LONGEST))


def _right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def _split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise ValueError("parts count from 1, or from -1 at the end: there is no part 0")
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _substring_index(text: str, separator: str, count: int) -> str:
    if not separator or count == 0:
        return ""
    parts = text.split(separator) if count > 0 else _split_from_end(text, separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _split_from_end(text: str, separator: str) -> list[str]:
    return text.rsplit(separator)


def _overlay(text: str, by: str, start: int, length: int = -1) -> str:
    length = len(by) if length < 0 else length
    return _substring(text, 1, max(start - 1, 0)) + by + _substring(text, start + length)


# ── Made of others ───────────────────────────────────────────────────────────────────────────────


def _repeat(text: str, count: int) -> str:
    if count > 0 and len(text) * count > _LONGEST:
        raise ValueError(f"a text of {len(text) * count:,} characters is too long")
    return text * max(count, 0)


def _arrow_repeat(pc: Any, text: Any, count: Any) -> Any:
    if not _is_array(text) or _is_array(count):
        return None
    longest = pc.max(pc.utf8_length(text)).as_py() or 0
    return None if longest * count > 1000 else pc.binary_repeat(text, max(count, 0))


def _make_padding(text: str, length: int, by: str) -> str:
    missing = length - len(text)
    if missing > _LONGEST:
        raise ValueError(f"a text of {length:,} characters is too long")
    return (by * (missing // len(by) + 1))[:missing] if by and missing > 0 else ""


def _lpad(text: str, length: int, by: str = " ") -> str:
    return _make_padding(text, length, by) + text[: max(length, 0)]


def _rpad(text: str, length: int, by: str = " ") -> str:
    return text[: max(length, 0)] + _make_padding(text, length, by)


def _arrow_pad(name: str) -> Any:
    def pad(pc: Any, text: Any, length: Any, by: Any = " ") -> Any:
        if not _is_array(text) or _is_array(length) or _is_array(by) or len(by) != 1:
            return None
        if not 0 <= length <= 1000:
            return None
        cut = pc.utf8_slice_codeunits(text, 0, length)
        return getattr(pc, name)(cut, width=length, padding=by)

    return pad


def _initcap(text: str) -> str:
    return " ".join(_title(word[:1]) + word[1:] for word in text.lower().split(" "))


def _title(letter: str) -> str:
    found = letter.title()
    return found if len(found) == 1 else letter


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str] = {}
    for i, letter in enumerate(old):
        table.setdefault(ord(letter), new[i : i + 1])
    return text.translate(table)


def _chr(number: int) -> str:
    return "" if number < 0 else chr(number % 256)


def _format(pattern: str, *values: Any) -> str:
    try:
        return pattern % values
    except (TypeError, ValueError, OverflowError) as problem:
        raise ValueError(
            f"{pattern!r} cannot be filled with {len(values)} values: {problem}"
        ) from None


# ── Codes ────────────────────────────────────────────────────────────────────────────────────────


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _hex(value: int | str | bytes) -> str:
    if isinstance(value, int):
        return f"{value & 0xFFFFFFFFFFFFFFFF:X}"
    return _bytes(value).hex().upper()


def _unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")
    except ValueError:
        raise ValueError(f"{text!r} has letters that are not hexadecimal digits") from None


def _base64(value: str | bytes) -> str:
    import base64

    return base64.b64encode(_bytes(value)).decode()


def _unbase64(text: str) -> bytes:
    import base64
    import binascii

    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is not text in base 64") from None


def _url_decode(text: str) -> str:
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{text!r} is not the code of a text") from None


_MASK: Final = 0xFFFFFFFF


def _mix(mixed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    mixed ^= word * 0x1B873593 & _MASK
    mixed = (mixed << 13 | mixed >> 19) & _MASK
    return (mixed * 5 + 0xE6546B64) & _MASK


def _finish(mixed: int, length: int) -> int:
    mixed ^= length
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    mixed ^= mixed >> 16
    return mixed


def _hash(*values: Any) -> int:
    """Spark's: Murmur3 of 32 bits, of one value after the other."""
    import struct

    mixed = 42
    for value in values:
        if isinstance(value, bool):
            mixed = _finish(_mix(mixed, int(value)), 4)
        elif isinstance(value, int | float):
            packed = struct.pack("<d", value + 0.0) if isinstance(value, float) else None
            bits = int(value) if packed is None else int.from_bytes(packed, "little")
            mixed = _mix(_mix(mixed, bits & _MASK), bits >> 32 & _MASK)
            mixed = _finish(mixed, 8)
        else:
            data = _bytes(value)
            whole = len(data) & ~3
            for i in range(0, whole, 4):
                mixed = _mix(mixed, int.from_bytes(data[i : i + 4], "little"))
            for byte in data[whole:]:
                mixed = _mix(mixed, (byte - 256 if byte > 127 else byte) & _MASK)
            mixed = _finish(mixed, len(data))
    return mixed - (1 << 32) if mixed >> 31 else mixed


_NO_ARROW: Final = {"arrow": "Arrow has none; it is called once for each distinct value"}

_text = partial(FunctionRow, family="Text")

ROWS: Final = (
    _text(
        name="upper", aliases=("ucase",), signature="(string) -> string",
        summary="Letters in upper case.", example=('upper("Chani")', "CHANI"),
        scalar=str.upper, arrow=_arrow_case("ascii_upper"), spark="upper", duckdb="upper",
    ),
    _text(
        name="lower", aliases=("lcase",), signature="(string) -> string",
        summary="Letters in lower case.", example=('lower("Chani")', "chani"),
        scalar=str.lower, arrow=_arrow_case("ascii_lower"), spark="lower", duckdb="lower",
    ),
    _text(
        name="length", aliases=("strlen", "char_length"),
        sql=("character_length", "len"), signature="(string) -> long | (list) -> long",
        summary="The number of characters of a text, or of elements of a list.",
        example=('length("Chani")', 5),
        scalar=len, arrow=lambda pc, t: pc.utf8_length(t), spark="length", duckdb="length",
    ),
    _text(
        name="octet_length", signature="(string) -> long | (binary) -> long",
        summary="The number of bytes of a text in UTF-8.", example=('octet_length("é")', 2),
        scalar=lambda v: len(_bytes(v)), arrow=lambda pc, t: pc.binary_length(t),
        spark="octet_length", duckdb="octet_length(encode({0}))",
    ),
    _text(
        name="bit_length", signature="(string) -> long | (binary) -> long",
        summary="The number of bits of a text in UTF-8.", example=('bit_length("é")', 16),
        scalar=lambda v: 8 * len(_bytes(v)), spark="bit_length", duckdb="bit_length",
        arrow=lambda pc, t: pc.multiply(pc.cast(pc.binary_length(t), "int64"), 8),
    ),
    _text(
        name="find_in_set", signature="(string, string) -> long",
        summary="The position of a text in a comma-separated list, from 1; 0 if absent or if it "
        "contains a comma.",
        example=('find_in_set("b", "a,b,c")', 2), scalar=lambda text, texts: 0 if "," in text
        else ([*texts.split(","), text].index(text) + 1) * (text in texts.split(",")),
        spark="find_in_set", duckdb="list_position(string_split({1}, ','), {0})",
        lacks={**_NO_ARROW, "duckdb": "it has none where there is no such text"},
    ),
    _text(
        name="trim", aliases=("btrim",), signature="(string, string?) -> string",
        summary="A text without blanks at its ends, or without the characters given.",
        example=('trim("  spice ")', "spice"),
        scalar=lambda text, letters=" ": text.strip(letters) if letters else text,
        arrow=lambda pc, t, letters=" ": pc.utf8_trim(t, characters=letters)
        if _is_array(t) and letters and not _is_array(letters) else None,
        spark="btrim", duckdb="trim",
    ),
    _text(
        name="ltrim", signature="(string) -> string",
        summary="A text without blanks at its start.", example=('ltrim("  spice ")', "spice "),
        scalar=lambda text: text.lstrip(" "),
        arrow=lambda pc, t: pc.utf8_ltrim(t, characters=" "), spark="ltrim", duckdb="ltrim",
    ),
    _text(
        name="rtrim", signature="(string) -> string",
        summary="A text without blanks at its end.", example=('rtrim("  spice ")', "  spice"),
        scalar=lambda text: text.rstrip(" "),
        arrow=lambda pc, t: pc.utf8_rtrim(t, characters=" "), spark="rtrim", duckdb="rtrim",
    ),
    _text(
        name="concat", aliases=("cat",), signature="(string...) -> string | (list...) -> list",
        summary="Concatenates texts, or lists.",
        example=('concat("sand", "worm")', "sandworm"),
        scalar=_make_join,
        arrow=lambda pc, *texts: pc.binary_join_element_wise(*texts, ""),
        spark="concat", duckdb="concat", grows=True,
    ),
    _text(
        name="concat_ws", signature="(string, string...) -> string",
        summary="Concatenates texts with the first one between them.",
        example=('concat_ws(", ", "Paul", "Chani")', "Paul, Chani"),
        scalar=lambda separator, *texts: separator.join(texts),
        arrow=lambda pc, separator, *texts: pc.binary_join_element_wise(*texts, separator),
        spark="concat_ws", duckdb="concat_ws", grows=True,
    ),
    _text(
        name="replace", signature="(string, string, string?) -> string",
        summary="Replaces every occurrence of the second text by the third, or removes it.",
        example=('replace("spice", "sp", "d")', "dice"),
        scalar=lambda text, old, new="": text.replace(old, new) if old else text,
        arrow=lambda pc, text, old, new="": pc.replace_substring(
            text, pattern=old, replacement=new
        ) if _is_array(text) and old and not (_is_array(old) or _is_array(new)) else None,
        spark=lambda sf, text, old, new=None: sf.replace(
            text, old, sf.lit("") if new is None else new
        ),
        duckdb="replace", grows=True,
    ),
    _text(
        name="substring", aliases=("substr",), signature="(string, long, long?) -> string",
        summary="The part of a text from a place on, of the length given. A start below 0 "
        "counts from the end, and 0 is taken for 1.",
        example=('substring("Caladan", 2, 3)', "ala"),
        scalar=_substring, arrow=_arrow_substring,
        spark=lambda sf, text, start, length=None: sf.substr(
            text, int32(sf, start),
            sf.lit(2**31 - 1) if length is None else int32(sf, length),
        ),
        duckdb="substring",
    ),
    _text(
        name="left", signature="(string, long) -> string",
        summary="The first characters of a text.", example=('left("Caladan", 3)', "Cal"),
        scalar=lambda text, count: text[: max(count, 0)], arrow=_arrow_left,
        spark=lambda sf, text, count: sf.left(text, int32(sf, count)),
        duckdb="left", lacks={"duckdb": "a count below 0 leaves out the last characters"},
    ),
    _text(
        name="right", signature="(string, long) -> string",
        summary="The last characters of a text.", example=('right("Caladan", 3)', "dan"),
        scalar=_right,
        spark=lambda sf, text, count: sf.right(text, int32(sf, count)),
        duckdb="right", lacks={**_NO_ARROW,
                               "duckdb": "a count below 0 leaves out the first characters"},
    ),
    _text(
        name="contains", aliases=("array_contains", "list_contains"),
        signature="(string, string) -> boolean | (list, E) -> boolean",
        summary="True if the text contains another, or the list the value.",
        example=('contains("melange", "lan")', True),
        scalar=lambda text, part: part in text,
        arrow=lambda pc, text, part: pc.match_substring(text, pattern=part)
        if _is_array(text) and not _is_array(part) else None,
        spark="contains", duckdb="contains",
    ),
    _text(
        name="starts_with", sql=("startswith",), signature="(string, string) -> boolean",
        summary="True if the text begins with another.",
        example=('starts_with("melange", "me")', True),
        scalar=str.startswith,
        arrow=lambda pc, text, part: pc.starts_with(text, pattern=part)
        if _is_array(text) and not _is_array(part) else None,
        spark="startswith", duckdb="starts_with",
    ),
    _text(
        name="ends_with", sql=("endswith",), signature="(string, string) -> boolean",
        summary="True if the text ends with another.",
        example=('ends_with("melange", "ge")', True),
        scalar=str.endswith,
        arrow=lambda pc, text, part: pc.ends_with(text, pattern=part)
        if _is_array(text) and not _is_array(part) else None,
        spark="endswith", duckdb="ends_with",
    ),
    _text(
        name="position", aliases=("locate",), signature="(string, string) -> long",
        summary="The position of the first text in the second, from 1; 0 if absent.",
        example=('position("lan", "melange")', 3),
        scalar=lambda part, text: text.find(part) + 1,
        arrow=lambda pc, part, text: pc.add(pc.find_substring(text, pattern=part), 1)
        if _is_array(text) and not _is_array(part) and _is_ascii(text) else None,
        spark=lambda sf, part, text: sf.call_function("locate", part, text),
        duckdb="instr({1}, {0})",
    ),
    _text(
        name="instr", signature="(string, string) -> long",
        summary="The position of the second text in the first, from 1; 0 if absent.",
        example=('instr("melange", "lan")', 3),
        scalar=lambda text, part: text.find(part) + 1,
        arrow=lambda pc, text, part: pc.add(pc.find_substring(text, pattern=part), 1)
        if _is_array(text) and not _is_array(part) and _is_ascii(text) else None,
        spark="instr", duckdb="instr",
    ),
    _text(
        name="repeat", signature="(string, long) -> string",
        summary="A text repeated n times.", example=('repeat("ha", 3)', "hahaha"),
        scalar=_repeat, arrow=_arrow_repeat, fails=True, grows=True,
        spark=lambda sf, text, count: sf.when(
            sf.length(text) * sf.greatest(count, sf.lit(0)) <= _LONGEST,
            sf.call_function("repeat", text, int32(sf, count)),
        ),
        duckdb="repeat",
    ),
    _text(
        name="space", signature="(long) -> string",
        summary="A text of n blanks.", example=("space(3)", "   "),
        scalar=lambda count: _repeat(" ", count), fails=True, grows=True,
        spark=lambda sf, count: sf.when(
            count <= _LONGEST, sf.call_function("space", int32(sf, count))
        ),
        duckdb="repeat(' ', {0})", lacks=_NO_ARROW,
    ),
    _text(
        name="lpad", signature="(string, long, string?) -> string",
        summary="A text of the given length: padded with blanks or another text on the left, or "
        "cut.",
        example=('lpad("7", 3, "0")', "007"),
        scalar=_lpad, arrow=_arrow_pad("utf8_lpad"), fails=True, grows=True,
        spark=lambda sf, text, length, by=None: sf.when(
            length <= _LONGEST,
            sf.call_function("lpad", text, int32(sf, length), sf.lit(" ") if by is None else by),
        ),
        duckdb="lpad({0}, CAST({1} AS INTEGER), {2})",
        lacks={"duckdb": "it must be told what to fill with"},
    ),
    _text(
        name="rpad", signature="(string, long, string?) -> string",
        summary="A text of the given length: padded with blanks or another text on the right, or "
        "cut.",
        example=('rpad("7", 3, "0")', "700"),
        scalar=_rpad, arrow=_arrow_pad("utf8_rpad"), fails=True, grows=True,
        spark=lambda sf, text, length, by=None: sf.when(
            length <= _LONGEST,
            sf.call_function("rpad", text, int32(sf, length), sf.lit(" ") if by is None else by),
        ),
        duckdb="rpad({0}, CAST({1} AS INTEGER), {2})",
        lacks={"duckdb": "it must be told what to fill with"},
    ),
    _text(
        name="reverse", signature="(string) -> string | (list) -> list",
        summary="The characters, or elements, in reverse order.",
        example=('reverse("Chani")', "inahC"),
        scalar=lambda text: text[::-1],
        arrow=lambda pc, t: pc.utf8_reverse(t), spark="reverse", duckdb="reverse",
        inverse={0: "reverse"},
        lacks={"duckdb": "marks stay behind the letters they stand on"},
    ),
    _text(
        name="initcap", signature="(string) -> string",
        summary="Every word capitalised, all other letters in lower case.",
        example=('initcap("lady jessica")', "Lady Jessica"),
        scalar=_initcap, spark="initcap",
        lacks={**_NO_ARROW, "duckdb": "it has none"},
    ),
    _text(
        name="translate", signature="(string, string, string) -> string",
        summary="Replaces each character of the second text by the one at the same position in "
        "the third, or removes it.",
        example=('translate("spice", "pe", "l")', "slic"),
        scalar=_translate, spark="translate", duckdb="translate", lacks=_NO_ARROW, grows=True,
    ),
    _text(
        name="split_part", signature="(string, string, long) -> string",
        summary="The n-th part between separators, from 1; a negative n counts from the end.",
        example=('split_part("a,b,c", ",", 2)', "b"),
        scalar=_split_part, fails=True,
        spark=lambda sf, text, separator, number: sf.when(
            number != 0, sf.call_function("split_part", text, separator, int32(
                sf, sf.when(number == 0, sf.lit(1)).otherwise(number)))
        ),
        duckdb="split_part", lacks={**_NO_ARROW, "duckdb": "part 0 is part 1"},
    ),
    _text(
        name="substring_index", signature="(string, string, long) -> string",
        summary="The text before the n-th separator, or after the n-th from the end if n is "
        "negative.",
        example=('substring_index("a.b.c", ".", 2)', "a.b"),
        scalar=_substring_index,
        spark=lambda sf, text, by, count: sf.call_function(
            "substring_index", text, by, int32(sf, count)
        ),
        lacks={**_NO_ARROW, "duckdb": "it has none"},
    ),
    _text(
        name="overlay", signature="(string, string, long, long?) -> string",
        summary="A text with the second written over it from a place on, over as many "
        "characters as it has, or as are given.",
        example=('overlay("Arrakis", "OO", 3)', "ArOOkis"),
        scalar=_overlay, grows=True,
        lacks={**_NO_ARROW, "duckdb": "it has none",
               "spark": "Spark treats a start of 0 differently"},
    ),
    _text(
        name="ascii", aliases=("ord",), signature="(string) -> long",
        summary="The Unicode number of the first character; 0 for an empty text.",
        example=('ascii("A")', 65),
        scalar=lambda text: ord(text[0]) if text else 0, spark="ascii", duckdb="ascii",
        lacks=_NO_ARROW,
    ),
    _text(
        name="chr", aliases=("char",), signature="(long) -> string",
        summary="The character with a code, modulo 256 as in Spark; empty for a negative code.",
        example=("chr(65)", "A"),
        scalar=_chr, spark="chr", duckdb="chr(CAST(({0}) % 256 AS INTEGER))", lacks=_NO_ARROW,
    ),
    _text(
        name="format_string", aliases=("format",), sql=("printf",),
        signature="(string, any...) -> string",
        summary="Formats values by a pattern, as printf does.",
        example=('format_string("%s has %d", "Paul", 2)', "Paul has 2"),
        scalar=_format, fails=True, grows=True, duckdb="printf",
        lacks={**_NO_ARROW, "spark": "Java's patterns differ from C's",
               "duckdb": "it knows fewer patterns"},
    ),
    _text(
        name="md5", grows=True, signature="(string) -> string | (binary) -> string",
        summary="The MD5 hash, as hexadecimal digits.",
        example=('md5("spice")', hashlib.md5(b"spice").hexdigest()),
        scalar=lambda value: hashlib.md5(_bytes(value)).hexdigest(),
        spark="md5", duckdb="md5", lacks=_NO_ARROW,
    ),
    _text(
        name="sha1", grows=True, sql=("sha",), signature="(string) -> string | (binary) -> string",
        summary="The SHA-1 hash, as hexadecimal digits.",
        example=('sha1("spice")', hashlib.sha1(b"spice").hexdigest()),
        scalar=lambda value: hashlib.sha1(_bytes(value)).hexdigest(),
        spark="sha1", duckdb="sha1", lacks=_NO_ARROW,
    ),
    _text(
        name="sha256", grows=True, signature="(string) -> string | (binary) -> string",
        summary="The SHA-256 hash, as hexadecimal digits.",
        example=('sha256("spice")', hashlib.sha256(b"spice").hexdigest()),
        scalar=lambda value: hashlib.sha256(_bytes(value)).hexdigest(),
        spark=lambda sf, value: sf.sha2(value, 256), duckdb="sha256", lacks=_NO_ARROW,
    ),
    _text(
        name="crc32", grows=True, signature="(string) -> long | (binary) -> long",
        summary="The checksum CRC-32.", example=('crc32("spice")', zlib.crc32(b"spice")),
        scalar=lambda value: zlib.crc32(_bytes(value)), spark="crc32",
        lacks={**_NO_ARROW, "duckdb": "it has none"},
    ),
    _text(
        name="hash", grows=True, signature="(any...) -> long",
        summary="A number of 32 bits for values, the same as Spark's `hash`.",
        example=('hash("spice", 7)', _hash("spice", 7)),
        scalar=_hash, spark="hash",
        lacks={**_NO_ARROW, "duckdb": "its hash is another"},
    ),
    _text(
        name="hex", grows=True,
        signature="(long) -> string | (string) -> string | (binary) -> string",
        summary="A number, or the bytes of a text, in hexadecimal digits.",
        example=("hex(255)", "FF"),
        scalar=_hex, spark="hex", duckdb="hex", lacks=_NO_ARROW,
    ),
    _text(
        name="unhex", signature="(string) -> binary",
        summary="The bytes of hexadecimal digits.", example=('unhex("CAFE")', b"\xca\xfe"),
        scalar=_unhex, spark="unhex", duckdb="unhex", fails=True, lacks=_NO_ARROW,
    ),
    _text(
        name="bin", grows=True, signature="(long) -> string",
        summary="A number in binary digits.", example=("bin(5)", "101"),
        scalar=lambda number: f"{number & 0xFFFFFFFFFFFFFFFF:b}", spark="bin", duckdb="bin",
        lacks=_NO_ARROW,
    ),
    _text(
        name="base64", signature="(string) -> string | (binary) -> string",
        summary="A text or bytes in base 64.", example=('base64("spice")', "c3BpY2U="),
        scalar=_base64, spark="base64", duckdb="base64(CAST({0} AS BLOB))", grows=True,
        lacks={**_NO_ARROW, "spark": "Spark breaks long lines"},
    ),
    _text(
        name="unbase64", signature="(string) -> binary",
        summary="The bytes of a text in base 64.", example=('unbase64("c3BpY2U=")', b"spice"),
        scalar=_unbase64, duckdb="from_base64", fails=True,
        lacks={**_NO_ARROW, "spark": "Spark ignores characters that are not digits"},
    ),
    _text(
        name="url_encode", signature="(string) -> string",
        summary="A text encoded for a URL.",
        example=('url_encode("a b&c")', "a+b%26c"),
        scalar=lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
        spark="url_encode", grows=True,
        lacks={**_NO_ARROW, "duckdb": "it writes blanks in another way"},
    ),
    _text(
        name="url_decode", signature="(string) -> string",
        summary="A text decoded from a URL.",
        example=('url_decode("a+b%26c")', "a b&c"),
        scalar=_url_decode, fails=True,
        lacks={**_NO_ARROW, "duckdb": "it reads blanks in another way",
               "spark": "Spark stops at invalid codes"},
    ),
)  # fmt: skip

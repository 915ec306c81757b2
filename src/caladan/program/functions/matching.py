"""Text that is like other text: regular expressions, distances, codes of sounds, addresses.

Regular expressions are Python's, with letters, digits and blanks of ASCII in classes such as `\\d`;
Java's mean the same, but for what only one of them has. A replacement has groups as `$1`.
"""

from __future__ import annotations

import json
import re
import warnings
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from caladan.program.functions.row import FunctionRow
from caladan.program.values import quote_value

_MOST: Final = 64  # characters of texts that are compared a column at a time
_BLOCK: Final = 1 << 15  # texts that are compared at a time: their columns stay in the cache


# ── Regular expressions ──────────────────────────────────────────────────────────────────────────


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern, re.ASCII)
    except (re.error, RecursionError, OverflowError) as problem:
        raise ValueError(
            f"{quote_value(pattern)} is not a regular expression ({problem})"
        ) from None


def _regexp_matches(text: str, pattern: str) -> bool:
    return _compile(pattern).search(text) is not None


def _regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    expression = _compile(pattern)
    if not 0 <= group <= expression.groups:
        raise ValueError(f"{quote_value(pattern)} has {expression.groups} groups, not {group}")
    found = expression.search(text)
    return (found[group] or "") if found else ""


@cache
def _replacement(pattern: str, by: str) -> str:
    """A replacement with groups as `$1`, as Python has it."""
    groups = _compile(pattern).groups
    made: list[str] = []
    for token in re.findall(r"\\.|\$\d+|[\s\S]", by):
        if token[0] == "$" and len(token) > 1:
            if int(token[1:]) > groups:
                raise ValueError(f"{quote_value(pattern)} has {groups} groups, not {token[1:]}")
            made.append(f"\\g<{token[1:]}>")
        else:
            plain = token[1:] if len(token) > 1 else token
            made.append("\\\\" if plain == "\\" else plain)
    return "".join(made)


def _regexp_replace(text: str, pattern: str, by: str) -> str:
    return _compile(pattern).sub(_replacement(pattern, by), text)


def _regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in _compile(pattern).finditer(text))


_APART: Final = re.compile(r"\[:|\{,|\(\?|\\[^dwDW.*+?()\[\]{}|^$\\/-]")
"""What RE2, which Arrow has, does not read as Python does."""


def _is_shared(texts: Any, pattern: Any) -> bool:
    """Whether Arrow finds what Python finds."""
    if not hasattr(texts, "buffers") or not isinstance(pattern, str):
        return False
    _compile(pattern)
    data = texts.buffers()[2]
    return not _APART.search(pattern) and not ("$" in pattern and data and b"\n" in bytes(data))


def _arrow_replace(pc: Any, text: Any, pattern: Any, by: Any) -> Any:
    if not isinstance(by, str) or not _is_shared(text, pattern) or "\\" in by:
        return None
    if _compile(pattern).search("") or re.search(r"\$\d\d", by):
        return None  # they do not agree on what comes after a match of nothing
    _replacement(pattern, by)
    groups = re.sub(r"\$(\d)", r"\\\1", by)
    return pc.replace_substring_regex(text, pattern=pattern, replacement=groups)


# ── Distances ────────────────────────────────────────────────────────────────────────────────────


def _levenshtein(one: str, other: str) -> int:
    before = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        now = [i]
        for j, its in enumerate(other, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (letter != its)))
        before = now
    return before[-1]


def _jaro_winkler(one: str, other: str) -> float:
    if not one or not other:
        return float(one == other)
    window = max(max(len(one), len(other)) // 2 - 1, 0)
    taken = [False] * len(other)
    matched: list[str] = []
    for i, letter in enumerate(one):
        for j in range(max(i - window, 0), min(i + window + 1, len(other))):
            if not taken[j] and other[j] == letter:
                taken[j] = True
                matched.append(letter)
                break
    if not matched:
        return 0.0
    theirs = [letter for letter, is_taken in zip(other, taken, strict=True) if is_taken]
    turned = sum(a != b for a, b in zip(matched, theirs, strict=True)) // 2
    count = len(matched)
    found = (count / len(one) + count / len(other) + (count - turned) / count) / 3.0
    prefix = next((i for i in range(min(len(one), len(other), 4)) if one[i] != other[i]), None)
    prefix = min(len(one), len(other), 4) if prefix is None else prefix
    return found + prefix * 0.1 * (1.0 - found) if found > 0.7 else found


def _letters(text: Any, start: int, stop: int) -> tuple[Any, Any] | None:
    """A block of texts as rows of letters, one row for each place, and their lengths."""
    import numpy as np

    texts = text.slice(start, stop - start).to_pylist() if hasattr(text, "buffers") else [text]
    array = np.array(texts, dtype=np.str_)
    width = array.dtype.itemsize // 4
    if width > _MOST:
        return None
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    places = array.view(np.uint32).reshape(len(texts), width).T if width else np.empty((0, 1))
    if len(texts) < stop - start:
        shape = (len(places), stop - start)
        return np.broadcast_to(places, shape), np.broadcast_to(lengths, stop - start)
    return np.ascontiguousarray(places), lengths


def _by_blocks(evaluate: Any) -> Any:
    """Compare two columns block by block; None if texts are long."""

    def evaluate_all(_pc: Any, one: Any, other: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        rows = len(one) if hasattr(one, "buffers") else len(other)
        made: list[Any] = []
        for start in range(0, rows, _BLOCK):
            stop = min(start + _BLOCK, rows)
            sides = _letters(one, start, stop), _letters(other, start, stop)
            if sides[0] is None or sides[1] is None:
                return None
            made.append(evaluate(np, *sides[0], *sides[1]))
        return pa.array(np.concatenate(made)) if made else None

    return evaluate_all


def _levenshteins(np: Any, one: Any, lengths: Any, other: Any, others: Any) -> Any:
    rows = len(lengths)
    table = np.empty((len(other) + 1, rows), np.uint8)
    table[:] = np.arange(len(other) + 1, dtype=np.uint8)[:, None]
    every = np.arange(rows)
    found = others.copy()
    for i in range(len(one)):
        diagonal = table[0].copy()
        table[0] = i + 1
        for j in range(len(other)):
            above = table[j + 1].copy()
            best = np.minimum(above, table[j]) + np.uint8(1)
            np.minimum(best, diagonal + (one[i] != other[j]), out=table[j + 1])
            diagonal = above
        done = lengths == i + 1
        found[done] = table[others[done], every[done]]
    return found


def _jaro_winklers(np: Any, one: Any, lengths: Any, other: Any, others: Any) -> Any:
    rows = len(lengths)
    window = np.maximum(np.maximum(lengths, others) // 2 - 1, 0)
    taken = np.zeros((len(other), rows), np.bool_)
    counts = np.zeros(rows, np.int64)
    matched = np.zeros((max(len(one), len(other)) + 1, rows), np.uint32)
    for i in range(len(one)):
        waiting = lengths > i
        for j in range(len(other)):
            hit = (one[i] == other[j]) & ~taken[j] & waiting
            hit &= (abs(i - j) <= window) & (others > j)
            if hit.any():
                taken[j] |= hit
                waiting &= ~hit
                at = np.flatnonzero(hit)
                matched[counts[at], at] = one[i][at]
                counts[at] += 1
    turned, places = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    for j in range(len(other)):
        at = np.flatnonzero(taken[j])
        turned[at] += matched[places[at], at] != other[j][at]
        places[at] += 1
    turned //= 2
    with np.errstate(all="ignore"):
        found = (counts / lengths + counts / others + (counts - turned) / counts) / 3.0
    found = np.where(counts > 0, found, 0.0)
    same, prefix = np.ones(rows, np.bool_), np.zeros(rows, np.int64)
    for i in range(min(len(one), len(other), 4)):
        same &= (one[i] == other[i]) & (lengths > i) & (others > i)
        prefix += same
    found = np.where(found > 0.7, found + prefix * 0.1 * (1.0 - found), found)
    return np.where((lengths == 0) & (others == 0), 1.0, found)


_SOUNDS: Final = "01230127022455012623017202"


def _soundex(text: str) -> str:
    first = text[:1].upper()
    if not ("A" <= first <= "Z" and first.isascii()):
        return text
    code, last = first, _SOUNDS[ord(first) - 65]
    for letter in text[1:]:
        letter = letter.upper() if letter.isascii() else ""
        if not "A" <= letter <= "Z":
            last = "0"
            continue
        sound = _SOUNDS[ord(letter) - 65]
        if sound == "7" or sound == last:
            continue
        last = sound
        if sound != "0":
            code += sound
            if len(code) == 4:
                break
    return code.ljust(4, "0")


# ── Addresses and JSON ───────────────────────────────────────────────────────────────────────────


def _parse_url(url: str, part: str, key: str | None = None) -> str:
    try:
        found = urlsplit(url)
    except ValueError as problem:
        raise ValueError(f"{quote_value(url)} is not an address ({problem})") from None
    user, _, _ = found.netloc.rpartition("@")
    parts = {
        "PROTOCOL": found.scheme, "HOST": found.hostname or "", "PATH": found.path,
        "QUERY": found.query, "REF": found.fragment, "AUTHORITY": found.netloc, "USERINFO": user,
        "FILE": found.path + (f"?{found.query}" if found.query else ""),
    }  # fmt: skip
    if part.upper() not in parts:
        raise ValueError(f"{quote_value(part)} is not a part of an address: {', '.join(parts)}")
    if key is None:
        return parts[part.upper()]
    pairs = (pair.partition("=") for pair in found.query.split("&"))
    return next((value for name, _, value in pairs if name == key), "")


_STEPS: Final = re.compile(r"\.(\w+)|\['([^']*)'\]|\[(\d+)\]")


def _json_get(text: str, path: str, otherwise: str | None = None) -> str:
    try:
        found: Any = json.loads(text)
    except ValueError as problem:
        raise ValueError(f"{quote_value(text)} is not JSON ({problem})") from None
    steps = list(_STEPS.finditer(path))
    if f"${''.join(step[0] for step in steps)}" != path:
        raise ValueError(f"{quote_value(path)} is not a path such as $.name[0]")
    for step in steps:
        key: Any = int(step[3]) if step[3] else step[1] or step[2]
        try:
            found = found[key] if isinstance(found, list if step[3] else dict) else None
        except (LookupError, TypeError):
            found = None
    if found is None:
        if otherwise is None:
            raise ValueError(f"there is nothing at {path} in {quote_value(text)}")
        return otherwise
    return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))


_matching = partial(FunctionRow, family="Matching")
_BY_VALUE: Final = {"arrow": "it is called once for each distinct value"}
_JAVA: Final = "Java's regular expressions differ"

ROWS: Final = (
    _matching(
        name="regexp_matches", aliases=("rlike", "regexp_like", "match"), sql=("regexp",),
        signature="(string, string) -> boolean",
        summary="True if a regular expression matches a part of the text.",
        example=('regexp_matches("Arrakis", "r+a")', True), scalar=_regexp_matches, fails=True,
        arrow=lambda pc, text, pattern: pc.match_substring_regex(text, pattern=pattern)
        if _is_shared(text, pattern) else None,
        duckdb="regexp_matches", lacks={"spark": _JAVA},
    ),
    _matching(
        name="regexp_extract", signature="(string, string, long?) -> string",
        summary="The part of a text that the first group of a regular expression matches, or the "
        "group with that number; 0 is the whole match. Nothing if it is not found.",
        example=(r'regexp_extract("id=42;", "id=([0-9]+)")', "42"), scalar=_regexp_extract,
        fails=True, duckdb="regexp_extract({0}, {1}, 1)", lacks={**_BY_VALUE, "spark": _JAVA},
    ),
    _matching(
        name="regexp_replace", signature="(string, string, string) -> string",
        summary="A text with all matches of a regular expression replaced; `$1` is the first "
        "group.",
        example=('regexp_replace("2024-02", "([0-9]+)-([0-9]+)", "$2/$1")', "02/2024"),
        scalar=_regexp_replace, arrow=_arrow_replace, fails=True, grows=True,
        lacks={"spark": _JAVA, "duckdb": r"its groups are \1"},
    ),
    _matching(
        name="regexp_count", signature="(string, string) -> long",
        summary="The number of matches of a regular expression.",
        example=('regexp_count("Arrakis", "[aA]")', 2), scalar=_regexp_count, fails=True,
        duckdb="len(regexp_extract_all({0}, {1}))", lacks={**_BY_VALUE, "spark": _JAVA},
    ),
    _matching(
        name="levenshtein", aliases=("edit_distance",), signature="(string, string) -> long",
        summary="The edit distance: the number of characters to change, add or remove.",
        example=('levenshtein("kitten", "sitting")', 3), scalar=_levenshtein,
        arrow=_by_blocks(_levenshteins), spark="levenshtein", duckdb="levenshtein",
        lacks={"duckdb": "it counts bytes"},
    ),
    _matching(
        name="jaro_winkler", aliases=("jaro_winkler_similarity",),
        signature="(string, string) -> double",
        summary="How alike two texts are, from 0.0 to 1.0, by Jaro and Winkler: a common start "
        "counts more. For names of people.",
        example=('jaro_winkler("MARTHA", "MARHTA")', 0.961111111111111), scalar=_jaro_winkler,
        arrow=_by_blocks(_jaro_winklers), duckdb="jaro_winkler_similarity",
        lacks={"spark": "not every version of Spark has it", "duckdb": "it counts bytes"},
    ),
    _matching(
        name="parse_url", signature="(string, string, string?) -> string",
        summary="A part of an address on the web: PROTOCOL, HOST, PATH, QUERY, REF, FILE, "
        "AUTHORITY or USERINFO; with a third text the value of that name in the query. Nothing if "
        "it has none.",
        example=('parse_url("https://arrakis.dune/spice?kg=7", "HOST")', "arrakis.dune"),
        scalar=_parse_url, fails=True,
        lacks={**_BY_VALUE, "duckdb": "it has none", "spark": "it gives NULL for no value"},
    ),
    _matching(
        name="json_get", aliases=("get_json_object",),
        signature="(string, string, string?) -> string",
        summary="What stands at a path of JSON, as `$.name[0]`: text as it is, all else as JSON. "
        "Where nothing stands, the third text; without one that is an error.",
        example=("""json_get('{"a": [1, {"b": "spice"}]}', "$.a[1].b")""", "spice"),
        scalar=_json_get, fails=True, duckdb="json_extract_string",
        lacks={**_BY_VALUE, "spark": "Spark returns NULL where this is empty"},
    ),
    _matching(
        name="soundex", signature="(string) -> string",
        summary="The code of how a word sounds in English: a letter and three digits.",
        example=('soundex("Robert")', "R163"), scalar=_soundex, spark="soundex",
        lacks={**_BY_VALUE, "duckdb": "it has none"},
    ),
)  # fmt: skip

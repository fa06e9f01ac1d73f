"""Objects that call themselves secret: all that a member of theirs holds is, under any name.

`kind: Secret` says so of a Kubernetes object's `data`, `"sensitive": true` of a `value`. An object
is what stands in the same braces, or in YAML at the same indentation.
"""

from outrider.texts.spans import Findings, compiled
from outrider.texts.structure import QUOTE, closing_brace, indented_lines, open_brace, strings

from .values import is_placeholder

_MAX_OBJECT = 8000  # how far it reaches to each side of the word that makes it secret

_NAME = rf"(?:(?:string)?data|value|default|result){QUOTE}?[ \t]*"
_MEMBER = rf"(?:(?<=[\s{{,\"'])|(?<=\\n)){_NAME}[:=][ \t]*"
_YAML_MEMBER = rf"{QUOTE}?{_NAME}:(?=[\s\\]|\Z)[ \t]*"
_OF_JSON = r"\"[ \t]*:[ \t]*(?:\\*\"|true)"
# A bare word between signs, and what follows a name in YAML.
_WORD = r"(?<=[:\[,{])\s*(?P<value>[^\s\"'`\\,:{}\[\]]+)(?=\s*[,}\]])"
_LEAF = rf"(?:{QUOTE}?[\w./-]+{QUOTE}?:[ \t]*)?{QUOTE}?(?P<value>[^\"'`\\\n]*)"


def mask_object(found: Findings, position: int) -> None:
    """Mask what the members of the object around `position` hold."""
    view = found.view
    if position in found.examined.get(False, ()):
        return
    first, last = max(0, position - _MAX_OBJECT), min(len(view), position + _MAX_OBJECT)
    opening = open_brace(view, first, position)
    if opening is None and compiled(_OF_JSON).search(view, max(0, position - 20), position + 20):
        opening = first  # its beginning is no longer here
    if opening is None:
        if position not in found.examined.get(True, ()):
            _mask_lines(found, first, position, last)
        return
    end = closing_brace(view, position, last)
    found.examined[False] = range(opening, end)
    found.leave(opening, end)
    at = opening
    while member := compiled(_MEMBER).search(found.folded, at, end):
        at = _mask_member(found, member.end(), end)


def _mask_member(found: Findings, start: int, last: int) -> int:
    """Mask the string at `start`, or those in the object or list there; return where it ends."""
    view = found.view
    opening = compiled(rf"[{{\[]|{QUOTE}").match(view, start)
    if opening is None:
        return start
    last = closing_brace(view, start + 1, last) if opening.group() in "{[" else opening.end()
    for first, end, after in strings(view, start, last):
        if not compiled(r"\s*[:=]").match(view, after):  # else it is a name
            _mask(found, first, end)
    for word in compiled(_WORD).finditer(view, start, last):
        _mask(found, *word.span("value"))
    return last


def _mask(found: Findings, start: int, end: int) -> None:
    value = found.text[start:end].rstrip()
    if len(value) > 3 and not is_placeholder(value):
        found.mask(start, start + len(value), "secret")


def _mask_leaf(found: Findings, start: int, end: int) -> None:
    leaf = compiled(_LEAF).match(found.view, start, end)
    if leaf is not None:
        _mask(found, *leaf.span("value"))


def _mask_lines(found: Findings, first: int, position: int, last: int) -> None:
    """Mask the members of the object in YAML that has a line at `position`."""
    lines = list(indented_lines(found.view, first, last))
    top = max(0, sum(line[2] <= position for line in lines) - 1)
    column, bottom = lines[top][0], top + 1
    while top and not lines[top][1] and lines[top - 1][0] >= column:
        top -= 1
    while bottom < len(lines) and lines[bottom][0] >= column + lines[bottom][1]:
        bottom += 1
    found.examined[True] = range(lines[top][2], lines[bottom - 1][3])
    found.leave(lines[top][2], lines[bottom - 1][3] + 1)
    child = None
    for own, _, start, end in lines[top:bottom]:
        if own == column:
            member = compiled(_YAML_MEMBER).match(found.folded, start, end)
            child = 0 if member else None
            if member and found.view[member.end() : member.end() + 1] in {"{", "["}:
                _mask_member(found, member.end(), end)
            elif member:
                _mask_leaf(found, member.end(), end)
        elif child is not None:
            child = child or own
            # What is deeper than the names is the text of one of them.
            (_mask_leaf if own == child else _mask)(found, start, end)

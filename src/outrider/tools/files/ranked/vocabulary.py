"""Words that tell nothing, words that mean the same, and Chinese words with their English ones.

They stand in a file of their own, so that a search in this code doesn't find the lists.
"""

import re
from pathlib import Path

_TEXT = Path(__file__).with_suffix(".txt").read_text("utf-8")
_stop, _weak, _groups, _chinese = re.split(r"^# .*\n", _TEXT, flags=re.MULTILINE)[1:]
_pairs = _chinese.split()
STOP = frozenset(_stop.split())
WEAK = frozenset(_weak.split())
GROUPS = tuple(frozenset(group.split()) for group in _groups.split(";"))
GLOSSARY = {
    word: english.split(",") for word, english in zip(_pairs[::2], _pairs[1::2], strict=True)
}

"""Print the table of `outrider.masking.randomness`: how rare each pair of letters is in words.

python3 -m benchmarks.letter_pairs

Every different word in the source of the standard library counts once. A digit is the rarity of
the second letter behind the first: bits by which chance makes it likelier than words do, plus 3.
"""

import math
import re
import sysconfig
from collections import Counter
from pathlib import Path
from string import ascii_lowercase

WORD = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"


def rarity(pairs: Counter[str], first: str, second: str) -> int:
    """Return the digit of a pair."""
    behind = sum(pairs[first + letter] for letter in ascii_lowercase)
    share = (pairs[first + second] + 0.5) / (behind + 13)
    return max(0, min(9, round(math.log2(1 / 26 / share)) + 3))


def main() -> None:
    """Print a row of 26 digits for each first letter."""
    words: set[str] = set()
    root = Path(sysconfig.get_path("stdlib"))
    for path in [*root.glob("*.py"), *root.glob("*/*.py")]:
        words.update(word.lower() for word in re.findall(WORD, path.read_text(errors="replace")))
    pairs = Counter(word[at : at + 2] for word in words for at in range(len(word) - 1))
    for first in ascii_lowercase:
        print("".join(str(rarity(pairs, first, second)) for second in ascii_lowercase))


if __name__ == "__main__":
    main()

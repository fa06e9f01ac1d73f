"""How random a value looks: whether chance made it, or somebody wrote it.

Words and names have common pairs of letters, few digits among the letters, and signs between
their parts. Every pair of neighbours says how much likelier chance makes it than a writer does,
in bits; their sum decides. 6 bits let one in a thousand random values of 16 to 64 characters
pass, and take six in a thousand of the different names in packages for random, hashes and codes
among them; of a shorter value more is asked.
"""

_MIN_BITS = 6
_MAX_READ = 128  # so many characters say enough

# Bits plus 3 for each pair of letters: aa ab … az ba … zz. `python3 -m benchmarks.letter_pairs`
# makes the table from the words in the source of the standard library.
_PAIRS = (
    "222365363842327371214555471224246523614424633427663615342562382345157342366748"
    "243304561663552563343566583522434658633254511264435824432147178254257233366658"
    "354405422772433582243567661544156517544515734246674634233437666230247322748584"
    "244414442524562364351546452534044415625344642346474726430576176255248633357827"
    "136405662764352296343778482622231637445425762144676753325446474221329133243577"
    "154414642862652261323658382445464446644454232505465615330546295434248322455848"
    "353515522844553355212657482534157218645524822346563632343346386221429222667687"
    "044505551765553575456456661544245317645225722454447733232264266445426441555136"
    "3434345537633241742254441325440565277556356555665440"
)

_LETTER_AND_DIGIT = 3.0
_NEW_WORD = 1.5  # camelCase
_SAME_WORD = 0.2  # a writer would have ended the word sooner or later
_SIGN = -3.0


def looks_random(value: str) -> bool:
    """Return whether chance is the likelier writer of `value`, and that by far."""
    return bits(value) >= _MIN_BITS + max(0, 16 - len(value)) / 2


def bits(value: str) -> float:
    """Return by how many bits chance is likelier to have written `value` than a person."""
    value = value[:_MAX_READ]
    return sum(map(_bits, value, value[1:])) if value.isascii() else 0.0


def _bits(first: str, second: str) -> float:
    if first.isalpha() and second.isalpha():
        if first.islower() and second.isupper():
            return _NEW_WORD
        place = 26 * (ord(first.lower()) - 97) + ord(second.lower()) - 97
        return int(_PAIRS[place]) - 3 + _SAME_WORD
    if first.isalnum() and second.isalnum():
        return 0.0 if first.isdigit() and second.isdigit() else _LETTER_AND_DIGIT
    return _SIGN if second in "_-./:" else 0.0

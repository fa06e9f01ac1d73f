"""Nothing secret survives the sanitiser, and nothing else is touched."""

import json
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from conftest import unmeasured_environment
from masking_examples import (
    A36,
    MASKER,
    ONLY_SECRETS,
    ORDINARY,
    PEM,
    PEM_BODY,
    ROOTS_HOME,
    SECRETS,
    dashed,
    mixed,
)
from outrider import masking
from outrider.masking import Masker, is_secret_name


@pytest.mark.parametrize(("kind", "frame", "secret"), SECRETS, ids=[s[0] for s in SECRETS])
def test_every_kind_of_secret_is_masked(kind: str, frame: str, secret: str):
    text = frame.format(secret)
    masked = MASKER.text(text)
    before, _, after = frame.replace("{{", "{").replace("}}", "}").partition("{}")
    assert secret not in masked.removeprefix(before)
    assert "[masked:" in masked
    assert masked.startswith(before) or "aws secret beside" in kind
    assert masked.endswith(after)
    assert ONLY_SECRETS.text(text) == masked
    assert MASKER.text(masked) == masked


@pytest.mark.parametrize(("kind", "frame", "secret"), SECRETS, ids=[s[0] for s in SECRETS])
def test_every_kind_of_secret_is_masked_escaped_in_json(kind: str, frame: str, secret: str):
    text = frame.format(secret)
    for _ in range(3):
        text = json.dumps({"text": f"first line\n{text}\nlast line"})
        masked = MASKER.text(text)
        inner = json.loads(masked)  # still JSON
        assert inner["text"]
        tail = secret.rsplit("\n", 2)[-2] if "\n" in secret else secret
        body = masked.replace("text", "").replace("first line", "")
        assert tail not in body or len(tail) < 3
        assert "[masked:" in masked


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str):
    assert MASKER.text(text) == text


def test_the_tables_do_not_shrink():
    assert len(SECRETS) >= 60
    assert len(ORDINARY) >= 60


@pytest.mark.parametrize(
    "line_end", ["\n", "\r\n", "\\n", "\\\\n", "\\\\\\\\n", "\n    ", '\\n" +\n  "']
)
@pytest.mark.parametrize("whole", [True, False])
def test_every_line_of_a_private_key_is_masked(line_end: str, whole: bool):
    key = PEM if whole else PEM[: PEM.index(PEM_BODY[4]) + 9]
    masked = MASKER.text("key: '" + key.replace("\n", line_end) + "' and prose")
    assert not any(line[:9] in masked for line in PEM_BODY)
    assert masked.endswith("' and prose")


def test_a_private_key_with_line_numbers_is_masked():
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(PEM.split("\n"), 1))
    assert not any(line in MASKER.text(numbered) for line in PEM_BODY)


@pytest.mark.parametrize("line_end", ["\n", "\\n", "\n12\t"])
def test_the_rest_of_a_private_key_is_masked_without_its_beginning(line_end: str):
    masked = MASKER.text(f"x = 1{line_end}" + line_end.join([*PEM.split("\n")[3:], "after"]))
    assert not any(line in masked for line in PEM_BODY)
    assert masked.startswith("x = 1") and masked.endswith("after")


def test_a_private_key_in_a_list_of_lines_is_masked():
    lines = ["before", *PEM.split("\n"), "after"]
    masked = MASKER.lines(lines)
    assert len(masked) == len(lines)
    assert (masked[0], masked[-1]) == ("before", "after")
    assert set(masked[1:-1]) == {"[masked:private-key]"}


def test_a_secret_that_spans_the_entries_of_a_list_is_masked():
    key = ["before", *PEM.split("\n"), "after"]
    value = {
        "lines": key,
        "found": [{"line": number, "text": line} for number, line in enumerate(key)],
        "values": ["- name: DB_PASSWORD", "  value: hunter2x"],
    }
    masked, changed = MASKER.value(value)
    assert masked["lines"] == [entry["text"] for entry in masked["found"]] == MASKER.lines(key)
    assert masked["values"] == ["- name: DB_PASSWORD", "  value: [masked:secret]"]
    assert len(changed) == 2 * (len(key) - 2) + 1
    assert MASKER.value(masked) == (masked, [])


def test_lines_of_a_long_stack_trace_are_not_joined():
    lines = frames("java", 40).split("\n")
    assert MASKER.lines(lines) == lines


def test_a_kubernetes_secret_is_masked_under_any_name():
    secret = b64encode(b"wonderland").decode()
    before = f"kind: ConfigMap\ndata:\n  plain: {secret}\n---\n"
    text = f"{before}apiVersion: v1\nkind: Secret\ndata:\n  tls.crt: {secret}\n  config: {secret}\n"
    assert MASKER.text(text).count(secret) == 1
    assert MASKER.text(text).startswith(before)


def test_a_known_secret_is_masked_in_every_spelling():
    secret = 'pä"ss\\wörd/x y'
    masker = Masker(secrets=(secret,))
    for text in (
        secret,
        json.dumps(secret),
        json.dumps(json.dumps(secret)),
        "p%C3%A4%22ss%5Cw%C3%B6rd%2Fx%20y",
    ):
        assert "rd" not in masker.text(f"<{text}>")  # fmt: skip


def test_paths_do_not_show_who_the_user_is():
    cases = {
        "/home/alice/project/src/a.py:3": "src/a.py:3",
        "in /home/alice/project.": "in ..",
        "/home/alice/project2/x": "~/project2/x",
        '"/home/alice/notes.txt"': '"~/notes.txt"',
        f"/home/bob/x /Users/carol/y {ROOTS_HOME}/.ssh/z": "~/x ~/y ~/.ssh/z",
        "file:///home/bob/x": "file://~/x",
        "PATH=/usr/bin:/home/bob/bin": "PATH=/usr/bin:~/bin",
        "gcc -I/home/bob/include": "gcc -I~/include",
        r"C:\Users\bob\x and C:\\Users\\bob\\x": r"~\x and ~\\x",
        r"first\n/home/bob/x": r"first\n~/x",
        r"\/home\/bob\/x": r"~\/x",
        "/home/пётр/x": "~/x",
    }
    assert {text: MASKER.text(text) for text in cases} == cases
    assert ONLY_SECRETS.text("/home/alice/project/src") == "/home/alice/project/src"
    assert Masker(home="/var/lib/ci").text("/var/lib/ci/x /var/lib/cinder") == "~/x /var/lib/cinder"


def frames(language: str, count: int) -> str:
    shape = {
        "python": '  File "/x/a{0}.py", line {0}, in f{0}\n    call{0}()\n',
        "javascript": "    at f{0} (/x/a.js:{0}:1)\n",
        "java": "\tat com.x.A.f{0}(A.java:{0})\n",
    }[language]
    return "Error: it failed\n" + "".join(shape.format(n) for n in range(count)) + "the end\n"


@pytest.mark.parametrize(
    ("project", "home", "text", "shown"),
    [
        ("/data", "/data/home/alice", "/data/home/alice/.ssh/x", "~/.ssh/x"),
        ("/home", None, "in /home/alice/x", "in ~/x"),
        ("/srv/app", "/home/anna", "/home/annaé/x /home/anna/y", "~/x ~/y"),
        ("/home/me", "/home/me", "/home/me.étienne/x", "~/x"),
        ("/srv/日本", "/home/me", "/Users/jo\u0308rg/x", "~/x"),
        ("/srv/日本", "/home/me", "/srv/日本/a.py", "a.py"),
    ],
)
def test_nested_folders_and_odd_names_are_told_apart(
    project: str, home: str | None, text: str, shown: str
):
    assert Masker(project=project, home=home).text(text) == shown


def test_a_key_that_shares_its_dashes_with_the_next_is_masked():
    rest = PEM.partition("\n")[2].rstrip().removesuffix("-----")
    masked = MASKER.text(rest + PEM)
    assert not any(line in masked for line in PEM_BODY)
    assert "PRIVATE" not in masked


def test_a_password_between_tabs_is_masked():
    assert "wonderland" not in MASKER.text("sshpass\t-p\twonderland\tssh host")


@pytest.mark.parametrize("language", ["python", "javascript", "java"])
def test_a_long_stack_trace_is_shortened(language: str):
    text = frames(language, 200)
    short = MASKER.text(text)
    assert len(short) < len(text) / 5
    assert "f0" in short and "f199" in short and "[180 frames cut]" in short
    assert short.startswith("Error: it failed\n") and short.endswith("\nthe end\n")
    assert MASKER.text(short) == short
    assert ONLY_SECRETS.text(text) == text
    assert MASKER.text(frames(language, 30)) == frames(language, 30)


def test_shortening_a_stack_trace_in_json_keeps_it_valid():
    for text in (frames("python", 100), json.dumps(frames("javascript", 100))):
        escaped = json.dumps({"stack": text})
        short = MASKER.text(escaped)
        assert "[80 frames cut]" in json.loads(short)["stack"]


def test_secrets_in_a_json_value_are_masked():
    token = dashed("ghp", "_", A36)
    value = {
        "a": ["x", {"b": f"see {token}"}],
        "client_secret": "anything at all",
        "api_keys": 3,
        "password": {"type": "string"},
        "passwords": None,
        token: 1,
        "dotted.key": "/home/alice/x",
        "tokens": [1, 2.5, True],
        "auth_token": ["one", "two"],
    }
    masked, changed = MASKER.value(value)
    assert masked == {
        "a": ["x", {"b": "see [masked:token]"}],
        "client_secret": "[masked:secret]",
        "api_keys": 3,
        "password": {"type": "string"},
        "passwords": None,
        "[masked:token]": 1,
        "dotted.key": "~/x",
        "tokens": [1, 2.5, True],
        "auth_token": ["[masked:secret]", "[masked:secret]"],
    }
    assert sorted(changed) == sorted(
        [
            "$.a[1].b",
            "$.client_secret",
            '$["[masked:token]"]',
            '$["dotted.key"]',
            "$.auth_token[0]",
            "$.auth_token[1]",
        ]
    )
    assert value["client_secret"] == "anything at all"
    assert MASKER.value(masked) == (masked, [])


def test_a_value_of_any_depth_is_masked():
    deep: list[object] = ["DB_PASSWORD=hunter2secret"]
    for _ in range(5000):
        deep = [deep]
    masked, changed = MASKER.value(deep)
    assert changed == ["$" + "[0]" * 5001]
    while isinstance(masked, list):
        masked = masked[0]
    assert masked == "DB_PASSWORD=[masked:secret]"


def test_two_secret_keys_keep_both_values():
    first, second = dashed("ghp", "_", A36), dashed("ghp", "_", A36[::-1])
    masked, _ = MASKER.value({first: 1, second: 2})
    assert sorted(masked.values()) == [1, 2]


def test_a_long_key_is_not_kept_in_memory():
    name = "x" * 100_000 + "_password"
    holders = sys.getrefcount(name)
    assert is_secret_name(name)
    assert MASKER.value({name: "hunter2"})[0] == {name: "[masked:secret]"}
    assert sys.getrefcount(name) == holders


def compiled_patterns(program: str) -> str:
    """Return what `program` prints; it finds the patterns that were compiled in `compiled`."""
    watched = (
        "import dataclasses, functools, re, enum, typing, collections.abc\n"
        "compiled = []\n"
        "original = re._compiler.compile\n"
        "re._compiler.compile = lambda *a, **k: compiled.append(a[0]) or original(*a, **k)\n"
        "import outrider.masking, sys\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched + program],
        env=unmeasured_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_importing_compiles_no_pattern():
    program = (
        "heavy = {'json', 'urllib.parse', 'orjson', 'asyncio'} & set(sys.modules)\n"
        "print(len(compiled), sorted(heavy))\n"
    )
    assert compiled_patterns(program) == "0 []"


def test_an_event_without_a_keyword_compiles_no_pattern_for_assignments():
    event = {"type": "turn_start", "text": "The people look at the place, and keep the report."}
    program = f"outrider.masking.Masker(home='/home/a').value({event!r}); print(compiled)"
    assert "(?P<operator>" not in compiled_patterns(program)
    program = program.replace("the report", "token=x")
    assert "(?P<operator>" in compiled_patterns(program)


def test_what_stands_between_two_masked_cells_is_judged_too():
    rows = [f"user{n},,nothing to say here" for n in range(800)]
    rows[0], rows[-1] = "al,wonderland,first", "bo,looking-glass,last"
    rows[400] = "cy,,db_password=Tr0ub4dor33x"
    masked = MASKER.text("user,password,notes\n" + "\n".join(rows) + "\n")
    for secret in ("wonderland", "looking-glass", "Tr0ub4dor33x"):
        assert secret not in masked


def test_a_table_ends_with_the_first_line_that_does_not_fit():
    secret = mixed(20)
    text = f"a,token\nb,{secret}\n\nb,{secret}\n"
    assert MASKER.text(text) == f"a,token\nb,[masked:secret]\n\nb,{secret}\n"


def test_a_users_own_home_is_masked_among_routes_too():
    text = "The routes are /home/alice/x and /home/orders/x; see /home/bob/src and /home/bob/a.py."
    shown = "The routes are ~/x and /home/orders/x; see ~/src and ~/a.py."
    assert MASKER.text(text) == shown
    assert Masker(home=ROOTS_HOME).text(f"route {ROOTS_HOME}/index") == "route ~/index"


def test_no_pattern_has_a_possessive_group_that_older_pythons_match_wrongly():
    """Python 3.11.2 gets `(…)*+` wrong; `(?>(…)*)` means the same and works."""
    folder = Path(masking.__file__).parent
    for module in folder.glob("*.py"):
        found = re.findall(r"\)(?:[*+?]|\{\{?\d*,?\d*\}?\})\+.*", module.read_text())
        assert not found, f"{module.name}: {found}"

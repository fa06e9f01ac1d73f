"""What keeps `read` true to the file, and small, whatever the file is."""

import os
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from file_tools import FileTools
from outrider.masking import Masker
from outrider.tools.context import ToolContext
from outrider.tools.files.read import lines_left, window


async def test_lines_are_numbered_and_the_text_says_how_to_read_on(tmp_path: Path):
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    text = await FileTools(tmp_path).text("read", path="a.txt", offset=10, limit=3)
    assert text.splitlines() == [
        "10\tline 10",
        "11\tline 11",
        "12\tline 12",
        "[lines 10-12 of 100; read on with offset=13]",
    ]


async def test_the_end_of_a_file_offers_nothing_more(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo")
    tools = FileTools(tmp_path)
    assert await tools.text("read", path="a.txt") == "1\tone\n2\ttwo"
    assert await tools.text("read", path="a.txt", offset=2, limit=1) == "2\ttwo"


async def test_an_offset_past_the_end_is_told_the_number_of_lines(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    outcome = await FileTools(tmp_path).call("read", path="a.txt", offset=5)
    assert outcome.envelope["code"] == 1002
    assert "the file has 2 lines" in outcome.text


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path):
    (tmp_path / "a.txt").touch()
    assert await FileTools(tmp_path).text("read", path="a.txt") == "[a.txt is empty]"


async def test_a_folder_is_answered_with_the_tool_to_use(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    outcome = await FileTools(tmp_path).call("read", path="sub")
    assert outcome.envelope["code"] == 1002 and "use ls" in outcome.text


async def test_reading_on_reaches_every_line_of_a_file_that_is_too_large_to_show(tmp_path: Path):
    lines = [f"{n} " + "x" * 120 for n in range(3_000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    tools = FileTools(tmp_path)
    seen: list[str] = []
    offset: int | None = 1
    while offset is not None:
        outcome = await tools.call("read", path="a.txt", offset=offset)
        assert len(outcome.text.encode()) <= 50_000
        seen += outcome.envelope["data"]["lines"]
        offset = outcome.envelope["data"]["nextOffset"]
    assert seen == lines


async def test_a_long_line_is_cut_and_said_to_be(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x" * 5_000 + "\nnext\n")
    text = await FileTools(tmp_path).text("read", path="a.txt")
    assert text == "1\t" + "x" * 2_000 + "… [cut: 5,000 characters]\n2\tnext"


async def test_what_is_not_text_is_told_by_its_name_where_its_bytes_are_not_known(tmp_path: Path):
    (tmp_path / "a.wasm").write_bytes(b"\0asm" + b"\1\0" * 50)
    assert "application/wasm" in await FileTools(tmp_path).text("read", path="a.wasm")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("\ufeffgrün\n".encode(), "utf-8 with BOM"),
        ("\ufeffgrün\n".encode("utf-16-le"), "utf-16-le with BOM"),
        ("\ufeffgrün\n".encode("utf-16-be"), "utf-16-be with BOM"),
        ("\ufeffgrün\n".encode("utf-32-le"), "utf-32-le with BOM"),
        ("der Wald ist grün und weit\n".encode("utf-16-le"), "utf-16-le"),
        ("grün\n".encode("latin-1"), "latin-1"),
        ("“grün”\n".encode("cp1252"), "cp1252"),
    ],
)
async def test_text_in_any_encoding_is_read_and_the_encoding_named(
    tmp_path: Path, content: bytes, said: str
):
    (tmp_path / "a.txt").write_bytes(content)
    text = await FileTools(tmp_path).text("read", path="a.txt")
    assert "grün" in text and f"[encoding: {said}]" in text and "\ufeff" not in text


async def test_bytes_that_are_not_utf8_are_replaced_and_said_to_be(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("größer, schöner ".encode() + b"\xff\n")
    text = await FileTools(tmp_path).text("read", path="a.txt")
    assert "größer, schöner \ufffd" in text and "not UTF-8" in text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80" + b"\0" * 50, "image/png"),
        ("a.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0" + b"\1" * 50, "image/jpeg"),
        ("a.pdf", b"%PDF-1.7\nplain looking\n", "application/pdf"),
        ("a.zip", b"PK\3\4\0\0" + b"\0" * 50, "application/zip"),
        ("a", b"\0\1\2\3" * 100, "application/octet-stream"),
        ("a.bin", bytes(range(1, 32)) * 10, "application/octet-stream"),
    ],
)
async def test_what_is_not_text_is_named_and_not_dumped(tmp_path: Path, name, content, said):
    (tmp_path / name).write_bytes(content)
    text = await FileTools(tmp_path).text("read", path=name)
    assert said in text and "not shown" in text and len(text) < 100


@pytest.mark.parametrize("offset", [1, 3, 60, 190])
async def test_a_private_key_is_hidden_wherever_reading_starts(tmp_path: Path, offset: int):
    key = [f"{number:04}{'aB3d' * 15}" for number in range(200)]
    begin, end = (f"-----{word} PRIVATE " + "KEY-----" for word in ("BEGIN", "END"))
    (tmp_path / "notes.txt").write_text("\n".join([begin, *key, end, "after"]))
    tools = FileTools(tmp_path, mask=Masker(only_secrets=True))
    data = await tools.data("read", path="notes.txt", offset=offset, limit=5)
    assert data["lines"] == ["[masked:private-key]"] * 5
    truth = await FileTools(tmp_path).data("read", path="notes.txt", offset=3, limit=5)
    assert truth["lines"] == key[1:6]


async def test_a_secret_at_the_place_where_a_line_is_cut_is_hidden_whole(tmp_path: Path):
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    for column in range(2_000 - len(token), 2_001, 5):
        (tmp_path / "a.txt").write_text("x" * (column - 1) + " " + token + " " + "y" * 3_000)
        text = await FileTools(tmp_path, mask=Masker(only_secrets=True)).text("read", path="a.txt")
        assert "ghp_" not in text and "characters]" in text, column


async def test_a_result_that_was_cut_can_be_read_by_its_name(tmp_path: Path):
    (tmp_path / "tree").mkdir()
    tools = FileTools(tmp_path / "tree", spill=tmp_path / "spill")
    name = tools.context.keep_whole("kept line 1\nkept line 2\n")
    assert name is not None
    assert "2\tkept line 2" in await tools.text("read", path=name)
    assert await tools.code("read", path="outrider-result:99") == 1003


async def test_what_was_read_is_in_the_receipt_and_what_was_refused_is_not(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / ".env").write_text("x")
    tools = FileTools(tmp_path)
    await tools.call("read", path="./a.txt")
    await tools.call("read", path=".env")
    assert tools.receipt.to_dict()["filesRead"] == ["a.txt"]


MEASURE = """
import asyncio, resource, sys
from pathlib import Path
from outrider.tools.loading import builtin_tools
from outrider.tools.context import ToolContext
from outrider.tools.executor import ToolExecutor

async def main():
    executor = ToolExecutor(builtin_tools(), ToolContext(cwd=Path(sys.argv[1])))
    await executor.execute("read", {"path": "small.txt", "limit": 10})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in sys.argv[2:]:
        outcome = await executor.execute("read", {"path": path, "limit": 10})
        assert outcome.envelope["code"] == 0, outcome.text
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


def test_ten_lines_of_a_huge_file_take_no_more_memory_than_of_a_small_one(tmp_path: Path):
    (tmp_path / "small.txt").write_text("line\n" * 1_000)
    for name, start in (("many-lines.txt", "line\n" * 4_000), ("one-line.txt", "x" * 20_000)):
        with open(tmp_path / name, "w") as file:
            file.write(start)
        os.truncate(tmp_path / name, 1 << 30)
    command = [sys.executable, "-c", MEASURE, str(tmp_path), "many-lines.txt"]
    many = int(subprocess.run(command, check=True, capture_output=True).stdout)
    os.truncate(tmp_path / "one-line.txt", 1 << 28)
    command[-1] = "one-line.txt"
    one = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert many < 8_192 and one < 8_192, (many, one)


@given(st.text(st.sampled_from("ab\n\r"), max_size=60), st.integers(1, 8), st.integers(1, 8))
def test_a_window_has_the_lines_asked_for_and_knows_how_many_are_left(
    text: str, first: int, count: int
):
    file = StringIO(text)
    shown, end = window(file, first, count, ToolContext(Path.cwd()))
    lines = text.removesuffix("\n").split("\n") if text else []
    assert shown == [line.removesuffix("\r") for line in lines[first - 1 :][:count]]
    assert end + lines_left(file, threading.Event()) == len(lines)

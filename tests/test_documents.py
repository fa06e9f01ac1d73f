"""`convert_content`: documents become Markdown, and a hostile one costs nothing but its call."""

import asyncio
import json
import struct
import subprocess
import sys
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import docx
import openpyxl
import pptx
import psutil
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

from conftest import wait_until
from outrider.masking import Masker
from outrider.protocol.envelope import ToolFault
from outrider.settings.keys import ConvertConfig, WebConfig
from outrider.tools import documents
from outrider.tools.context import ToolContext
from outrider.tools.documents import start_converter
from outrider.tools.documents.start_converter import convert_bytes
from outrider.tools.executor import ToolExecutor
from outrider.tools.loading import builtin_tools
from outrider.tools.web.session import WebSession
from web_servers import serving

CONVERT = tuple(tool for tool in builtin_tools() if tool.name == "convert_content")
CONVERTER = Path(documents.__file__).with_name("converter_process.py")
ROOT = Path(__file__).parents[1]
KEY = "sk-proj-Ab3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"


class Documents:
    """The tool over one folder."""

    def __init__(self, folder: Path, **settings):
        self.folder = folder
        self.context = ToolContext(cwd=folder, spill=folder.parent / "spill", **settings)
        self.executor = ToolExecutor(CONVERT, self.context)

    def write(self, name: str, data: bytes | str) -> None:
        (self.folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())

    async def call(self, **arguments):
        return await self.executor.execute("convert_content", arguments)

    async def text(self, name: str) -> str:
        outcome = await self.call(path=name)
        assert outcome.envelope["code"] == 0, outcome.text
        return outcome.envelope["data"]["text"]

    async def fault(self, name: str) -> tuple[int, str]:
        outcome = await self.call(path=name)
        assert outcome.envelope["code"] != 0, outcome.text
        return outcome.envelope["code"], outcome.envelope["message"]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree").mkdir()
    return Documents(tmp_path / "tree")


def limited(tree: Documents, **limits) -> Documents:
    return Documents(tree.folder, convert=ConvertConfig(**limits))


def saved(document) -> bytes:
    file = BytesIO()
    document.save(file)
    return file.getvalue()


def word(*paragraphs: str) -> bytes:
    document = docx.Document()
    for text in paragraphs:
        document.add_paragraph(text)
    return saved(document)


def pdf(*lines: str, **options) -> bytes:
    file = BytesIO()
    page = canvas.Canvas(file, **options)
    for number, line in enumerate(lines):
        page.drawString(72, 720 - 20 * number, line)
    page.save()
    return file.getvalue()


def with_part(package: bytes, name: str, part: bytes) -> bytes:
    """The package with one of its parts replaced."""
    file = BytesIO()
    with zipfile.ZipFile(BytesIO(package)) as old, zipfile.ZipFile(file, "w", 8) as new:
        for one in old.namelist():
            new.writestr(one, part if one == name else old.read(one))
    return file.getvalue()


def archive() -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("readme.txt", "x")
    return file.getvalue()


def raw_pdf(objects: list[bytes]) -> bytes:
    """A PDF of these objects, the first of which is its catalogue."""
    body, places = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return body + head + table + end % (len(objects) + 1, len(body))


def drawing(content: bytes, name: bytes, target: int, kind: bytes = b"/Subtype/Form") -> bytes:
    about = b"<</Type/XObject%s/BBox[0 0 9 9]/Resources<</XObject<</%s %d 0 R>>>>/Length %d>>"
    return about % (kind, name, target, len(content)) + b"\nstream\n%s\nendstream" % content


def endless_pdf() -> bytes:
    """A page that draws a form that draws another one a thousand times, and so on ten deep."""
    forms = [drawing(b"/F Do " * 1000, b"F", number + 1) for number in range(5, 15)]
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    return raw_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            page + b"/Resources<</XObject<</F 5 0 R>>>>>>",
            b"<</Length 5>>\nstream\n/F Do\nendstream",
            *forms,
            b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0>>\nstream\n\nendstream",
        ]
    )


async def test_word_document_keeps_headings_lists_and_tables(tree):
    document = docx.Document()
    document.add_heading("Tides", 1)
    document.add_heading("Causes", 2)
    document.add_paragraph("the moon", style="List Bullet")
    document.add_paragraph("the sun", style="List Bullet")
    table = document.add_table(2, 2)
    for number, text in enumerate(("port", "metres", "Brest", "7.2")):
        table.cell(number // 2, number % 2).text = text
    tree.write("a.docx", saved(document))
    text = await tree.text("a.docx")
    assert "# Tides" in text and "## Causes" in text
    assert "* the moon\n* the sun" in text
    assert "| port | metres |" in text and "| Brest | 7.2 |" in text


async def test_sheets_and_slides_keep_their_structure(tree):
    book = openpyxl.Workbook()
    book.active.title = "Prices"
    book.active.append(["item", "price"])
    book.active.append(["apple", 3])
    tree.write("a.xlsx", saved(book))
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    slide.placeholders[1].text = "first point"
    tree.write("a.pptx", saved(slides))
    text = await tree.text("a.xlsx")
    assert "## Prices" in text and "| item | price |" in text and "| apple | 3 |" in text
    text = await tree.text("a.pptx")
    assert "# Plan" in text and "first point" in text


async def test_pdf_page_notebook_and_table_become_text(tree):
    tree.write("a.pdf", pdf("The harbour is deep.", "It never freezes."))
    cells = [{"cell_type": "code", "source": ["depth = 7"], "outputs": []}]
    tree.write("a.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    tree.write(
        "a.html", "<h1>Café</h1><ul><li>one<li>two</ul><script>x()</script>".encode("cp1252")
    )
    tree.write("a.csv", "name,depth\nBrest,7\n")
    assert "The harbour is deep." in await tree.text("a.pdf")
    assert "depth = 7" in await tree.text("a.ipynb")
    text = await tree.text("a.html")
    assert "# Café" in text and "* one" in text and "x()" not in text
    assert "| Brest | 7 |" in await tree.text("a.csv")


async def test_book_becomes_text(tree):
    file = BytesIO()
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="c.opf"/></rootfiles></container>'
    )
    opf = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest>'
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/></spine></package>'
    )
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("META-INF/container.xml", container)
        book.writestr("c.opf", opf)
        book.writestr("a.xhtml", "<html><body><h1>Chapter</h1><p>Once.</p></body></html>")
    tree.write("a.epub", file.getvalue())
    text = await tree.text("a.epub")
    assert "# Chapter" in text and "Once." in text


async def test_document_s_text_goes_to_the_model_as_data_with_its_origin(tree):
    tree.write("a.csv", "a,b\n1,2\n")
    text = (await tree.call(path="a.csv")).text
    assert "untrusted-content" in text and "a.csv" in text.splitlines()[0]


async def test_pages_join_to_the_whole_text_and_convert_once(tree):
    tree.write("a.csv", "n,square\n" + "".join(f"{n},{n * n}\n" for n in range(500)))
    whole = await tree.text("a.csv")
    kept = list(tree.context.spill.glob("document-*"))
    assert len(kept) == 1 and kept[0].stat().st_mode & 0o077 == 0
    before = kept[0].stat().st_mtime_ns
    pages = []
    while (at := sum(map(len, pages))) < len(whole):
        outcome = await tree.call(path="a.csv", offset=at, limit=1000)
        pages.append(outcome.envelope["data"]["text"])
        assert (f"offset={at + 1000}" in outcome.text) == (at + 1000 < len(whole))
    assert "".join(pages) == whole
    assert kept[0].stat().st_mtime_ns == before
    assert (await tree.call(path="a.csv", offset=len(whole))).envelope["code"] == 1002


async def test_document_that_changed_is_converted_again(tree):
    tree.write("a.csv", "a\n1\n")
    assert "| 1 |" in await tree.text("a.csv")
    tree.write("a.csv", "a\n22\n")
    assert "| 22 |" in await tree.text("a.csv")


async def test_secret_at_the_edge_of_a_page_is_masked(tree):
    masked = Documents(tree.folder, mask=Masker(only_secrets=True))
    tree.write("a.csv", f"key\n{KEY}\nand the rest of the table\n")
    pages = [await masked.call(path="a.csv", offset=at, limit=20) for at in (0, 20, 40)]
    shown = "".join(page.envelope["data"]["text"] for page in pages)
    assert "[masked" in shown and not any(KEY[at : at + 12] in shown for at in range(28))


async def test_document_is_subject_to_the_rules_of_read(tree):
    outside = tree.folder.parent / "outside.csv"
    outside.write_text("a\n1\n")
    (tree.folder / "link.csv").symlink_to(outside)
    tree.write("server.key", "a\n1\n")
    for path in ("../outside.csv", str(outside), "link.csv", "server.key"):
        assert (await tree.fault(path))[0] == 1004, path
    assert (await tree.fault("none.pdf"))[0] == 1003
    assert (await tree.call()).envelope["code"] == 1002
    assert (await tree.call(path="a", url="https://example.org")).envelope["code"] == 1002
    tree.write("a.csv", "a\n1\n")
    assert (await tree.call(path="a.csv")).effects.files_read == ("a.csv",)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.docx", b"", "empty"),
        ("broken.docx", b"PK\x03\x04" + b"x" * 500, "damaged"),
        ("cut.docx", word("whole")[:5000], "damaged"),
        ("cut.pdf", pdf("whole")[:300], "damaged"),
        ("locked.pdf", pdf("x", encrypt=StandardEncryption("user", "owner")), "encrypted"),
        ("locked.docx", b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
        ("old.doc", b"\xd0\xcf\x11\xe0" + b"\0" * 500, "old binary format"),
        ("scan.pdf", pdf(), "no text"),
        ("archive.docx", archive(), "ZIP archive"),
        ("program.exe", b"MZ\x90\x00" * 50, "isn't supported"),
        ("photo.jpg", b"\xff\xd8\xff" + b"x" * 50, "isn't supported"),
        ("broken.ipynb", b"{", "damaged"),
    ],
)
async def test_document_without_text_is_told_apart(tree, name, data, words):
    tree.write(name, data)
    code, message = await tree.fault(name)
    assert code == 1007 and words in message and name in message


async def test_huge_document_is_refused_unread(tree):
    with (tree.folder / "huge.pdf").open("wb") as file:
        file.truncate(200 << 20)
    code, message = await tree.fault("huge.pdf")
    assert code == 1007 and "convert.maxBytes" in message


async def test_bombs_end_within_their_limits(tree):
    stated = bytearray(word("x"))
    place = stated.rindex(b"word/document.xml") - 46  # of its entry in the directory
    stated[place + 24 : place + 28] = struct.pack("<I", 1 << 30)
    tree.write("stated.docx", bytes(stated))
    code, message = await tree.fault("stated.docx")
    assert code == 1007 and "unpacks to" in message
    # A part that says less than it holds isn't read beyond what it says.
    stated[place + 24 : place + 28] = struct.pack("<I", 10)
    tree.write("lying.docx", bytes(stated))
    assert (await tree.fault("lying.docx"))[0] == 1007
    bulky = b"<a>" + b"<b>x</b>" * (1 << 18) + b"</a>"
    tree.write("memory.docx", with_part(word("x"), "word/document.xml", bulky))
    code, message = await limited(tree, memory_bytes=72 << 20).fault("memory.docx")
    assert code == 1007 and "convert.memoryBytes" in message
    tree.write("nested.html", b"<div>" * 20_000)
    code, message = await limited(tree, timeout_ms=20_000).fault("nested.html")
    assert code == 1007
    tree.write("good.csv", "a\n1\n")
    assert "| 1 |" in await tree.text("good.csv")


async def test_entities_are_neither_expanded_nor_read_from_files(tree):
    secret = tree.folder / "secret.txt"
    secret.write_text("the local secret")
    laughs = "".join(
        f'<!ENTITY l{n} "{f"&l{n - 1};" * 10 if n else "ha" * 10}">' for n in range(10)
    )
    document = (
        f'<?xml version="1.0"?><!DOCTYPE d [{laughs}<!ENTITY f SYSTEM "file://{secret}">]>'
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        "<w:body><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:body></w:document>"
    )
    for entity in ("&l9;", "&f;"):
        body = document.replace("{}", entity).encode()
        tree.write("a.docx", with_part(word("x"), "word/document.xml", body))
        outcome = await limited(tree, timeout_ms=20_000).call(path="a.docx")
        assert "the local secret" not in outcome.text and "hahaha" not in outcome.text


def running() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.cmdline()[2:3] == [str(CONVERTER)]:  # and not its cell
                found.append(process)
        except psutil.Error:
            continue
    return found


async def test_document_that_never_ends_is_ended(tree):
    tree.write("endless.pdf", endless_pdf())
    code, message = await limited(tree, timeout_ms=1_500).fault("endless.pdf")
    assert code == 2002 and "convert.timeoutMs" in message
    assert not running()


async def test_converter_ends_with_its_call_and_knows_no_secret(tree, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    tree.write("endless.pdf", endless_pdf())
    call = asyncio.create_task(tree.call(path="endless.pdf"))
    while not running():
        await asyncio.sleep(0.01)
    (process,) = running()
    while Path(f"/proc/{process.pid}/environ").exists() and not process.environ():
        await asyncio.sleep(0.01)
    assert "OPENAI_API_KEY" not in process.environ() and "HOME" not in process.environ()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(wait_until, lambda: not running(), "the converter's end")


ATTEMPTS = """
import runpy, sys, os, socket, subprocess
converter = runpy.run_path(sys.argv[1])
limits = {"memoryBytes": 1 << 30, "seconds": 60, "maxTextBytes": 1 << 20}
converter["give_up_rights"](limits)
converter["forbid"]()
for attempt in (
    lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2),
    lambda: socket.getaddrinfo("example.org", 80),
    lambda: subprocess.run(["true"]),
    lambda: os.fork(),
    lambda: open("/etc/passwd").read(),
    lambda: open(sys.argv[3], "w"),
):
    try:
        attempt()
    except OSError as error:
        print(type(error).__name__)
    else:
        print("done")
"""


def test_converter_reaches_no_network_no_file_and_no_program(tmp_path):
    with serving({}) as server:
        address, asked = server.host, server.asked
        port = address.rpartition(":")[2]
        command = [sys.executable, "-c", ATTEMPTS, str(CONVERTER), port, str(tmp_path / "x")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["PermissionError"] * 6
    assert not asked and not (tmp_path / "x").exists()


async def test_many_documents_at_once_leave_the_child_at_work(tree):
    for number in range(4):
        tree.write(f"{number}.csv", f"a\n{number}\n")
    tree.write("bad.pdf", b"%PDF-1.4")
    names = [*(f"{number}.csv" for number in range(4)), "bad.pdf"]
    outcomes = await asyncio.gather(*(tree.call(path=name) for name in names))
    assert [one.envelope["code"] for one in outcomes] == [0, 0, 0, 0, 1007]


WITHOUT_PACKAGE = """
import runpy, sys
sys.modules["markitdown"] = None
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.fixture
def default_install(tmp_path, monkeypatch):
    """The converter in an install without the extra."""
    script = tmp_path / "without_package.py"
    script.write_text(WITHOUT_PACKAGE.format(path=str(CONVERTER)))
    monkeypatch.setattr(start_converter, "_CONVERTER", str(script))


@pytest.mark.usefixtures("default_install")
async def test_missing_package_is_named_with_the_command_that_installs_it(tree):
    tree.write("a.pdf", b"%PDF-1.4\n")
    code, message = await tree.fault("a.pdf")
    assert code == 2004 and start_converter.INSTALL in message
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (
        f"pip install '{extras['optional-dependencies']['convert'][0]}'" == start_converter.INSTALL
    )


PLAIN = {
    "a.csv": (
        'name,note\nx,"a|b\nc"\ny\n',
        "| name | note |\n| --- | --- |\n| x | a\\|b c |\n| y |  |",
    ),
    "a.html": (
        "<script>no</script><h1>Title</h1><p>Some <b>words</b>.",
        "# Title\n\nSome **words**.",
    ),
    "a.md": ("# Title\n\nWords\n", "# Title\n\nWords"),
    "a.markdown": ("# Title\n", "# Title"),
    "a.txt": ("plain | words\n", "plain | words"),
}


@pytest.mark.usefixtures("default_install")
@pytest.mark.parametrize("name", PLAIN)
async def test_what_needs_no_package_is_converted_without_one(tree, name):
    written, expected = PLAIN[name]
    tree.write(name, written)
    outcome = await tree.call(path=name)
    assert outcome.envelope["code"] == 0, outcome.text
    assert expected in outcome.text and "no</script>" not in outcome.text


def test_the_default_install_says_what_it_converts(monkeypatch):
    monkeypatch.setattr(start_converter, "find_spec", lambda name: None)
    on, why = start_converter.converter_state(ConvertConfig())
    assert on and start_converter.INSTALL in why


async def test_nothing_is_converted_where_it_is_switched_off(tree):
    off = Documents(tree.folder, convert=None)
    off.write("a.csv", "a\n1\n")
    assert (await off.fault("a.csv"))[0] == 2004


def web(host: str, **settings) -> WebSession:
    config = WebConfig(allowed_hosts=(host,), **settings)
    return WebSession(config, keys={}, mask=Masker(only_secrets=True))


async def test_address_is_fetched_once_and_converted(tree):
    pages = {
        "/a.pdf": (200, "application/pdf", pdf("From the web.")),
        "/table": (200, "text/csv; charset=utf-8", b"a,b\n1,2\n"),
        "/raw/table.csv": (200, "text/plain; charset=utf-8", b"a,b\n3,4\n"),
        "/private": (403, "text/plain", b"no"),
        "/large": (200, "application/pdf", b"%PDF-" + b"x" * 20_000),
    }
    with serving(pages) as server:
        host = server.host
        convert = ConvertConfig(max_bytes=10_000)
        tree = Documents(tree.folder, web=web(host, max_bytes=5_000), convert=convert)
        async with tree.executor:
            for _ in range(2):
                outcome = await tree.call(url=f"http://{host}/a.pdf")
                assert "From the web." in outcome.text and host in outcome.text
            assert "| 1 | 2 |" in (await tree.call(url=f"http://{host}/table")).text
            assert "| 3 | 4 |" in (await tree.call(url=f"http://{host}/raw/table.csv")).text
            assert server.paths() == ["/a.pdf", "/table", "/raw/table.csv"]
            for path, code in (("/none", 1003), ("/private", 2005), ("/large", 1007)):
                outcome = await tree.call(url=f"http://{host}{path}")
                assert outcome.envelope["code"] == code, outcome.text


async def test_address_is_refused_as_a_page_s_is(tree):
    with serving({"/a.csv": (200, "text/csv", b"a\n1\n")}) as server:
        host, asked = server.host, server.asked
        guarded = Documents(tree.folder, web=web("example.org"))
        async with guarded.executor:
            for url in (f"http://{host}/a.csv", "file:///etc/passwd", f"http://u:p@{host}/a.csv"):
                assert (await guarded.call(url=url)).envelope["code"] in (1002, 1004)
        off = Documents(tree.folder, web=web(host, enabled=False))
        async with off.executor:
            assert (await off.call(url=f"http://{host}/a.csv")).envelope["code"] == 1004
        assert (await tree.call(url=f"http://{host}/a.csv")).envelope["code"] == 2004
        assert not asked


async def test_what_a_local_document_says_may_not_go_out(tree):
    words = "the plan for the northern harbour wall in spring"
    tree.write("plan.csv", f"plan\n{words}\n")
    with serving({"/": (200, "text/csv", b"a\n1\n")}) as server:
        host, asked = server.host, server.asked
        tree = Documents(tree.folder, web=web(host))
        async with tree.executor:
            for offset in (0, 45):  # the words begin on one page and end on the next
                await tree.call(path="plan.csv", offset=offset, limit=45)
            outcome = await tree.call(url=f"http://{host}/?q={words.replace(' ', '+')}")
            assert outcome.envelope["code"] == 1004 and not asked


async def test_bytes_are_converted_for_other_tools(tree):
    assert "Deep." in await convert_bytes(tree.context, pdf("Deep."), "a.pdf")
    with pytest.raises(ToolFault):
        await convert_bytes(tree.context, b"", "a.pdf")


def test_tool_loads_no_converter_before_it_is_called():
    code = (
        "import sys\nfrom outrider.tools.loading import builtin_tools\nbuiltin_tools()\n"
        "print(sorted({'markitdown', 'pandas', 'PIL', 'lxml', 'httpcore2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_converter_loads_only_what_one_kind_needs():
    code = (
        f"import runpy, sys; runpy.run_path({str(CONVERTER)!r})['converter']('pdf')\n"
        "print(sorted({'magika', 'requests', 'pandas', 'pptx', 'mammoth'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

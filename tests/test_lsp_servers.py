"""Real servers from the package registries give the known answers of small projects.

Nothing that the repository brings is run meanwhile: each project is full of traps.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from lsp_tool import PROJECTS, ROOT, Lsp
from outrider.settings.keys import PRIVILEGED_LSP_ACTIONS, READ_ONLY_LSP_ACTIONS

ALL = (*READ_ONLY_LSP_ACTIONS, *PRIVILEGED_LSP_ACTIONS)
PYTHON = ("ty", "basedpyright")


@pytest.fixture
def project(tmp_path):
    """A project whose repository brings traps: interpreters, compilers and servers that leave a
    mark when they are run."""
    mark = tmp_path / "mark"

    def copied(language: str) -> Path:
        folder = Path(shutil.copytree(PROJECTS / language, tmp_path / language))
        lay_traps(folder, mark)
        return folder

    yield copied
    assert not mark.exists(), mark.read_text()


def lay_traps(folder: Path, mark: Path) -> None:
    programs = ("python", "python3", "node", "npm", "cc", "clang", "tsserver")
    servers = ("ty", "basedpyright-langserver", "typescript-language-server", "clangd")
    for place in (".venv/bin", "node_modules/.bin", "bin"):
        for name in (*programs, *servers):
            program = folder / place / name
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text(f"#!/bin/sh\necho $0 >> {mark}\nexit 1\n")
            program.chmod(0o755)
    (folder / ".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    (folder / "pyrightconfig.json").write_text(json.dumps({"venvPath": ".", "venv": ".venv"}))
    package = folder / "node_modules/typescript"
    (package / "lib").mkdir(parents=True)
    (package / "package.json").write_text('{"name": "typescript", "version": "5.9.3"}')
    trap = f"require('fs').writeFileSync('{mark}', __filename); module.exports = () => {{}}"
    for name in ("tsserver.js", "typescript.js", "_tsserver.js"):
        (package / "lib" / name).write_text(trap)
    plugin = folder / "node_modules/trap/index.js"
    plugin.parent.mkdir()
    plugin.write_text(trap)
    if (tsconfig := folder / "tsconfig.json").exists():
        options = json.loads(tsconfig.read_text())
        options["compilerOptions"]["plugins"] = [{"name": "trap"}]
        tsconfig.write_text(json.dumps(options))
    calls = [
        {"directory": str(folder), "file": path.name, "command": f"{folder}/bin/cc {path.name}"}
        for path in folder.glob("*.c")
    ]
    (folder / "compile_commands.json").write_text(json.dumps(calls))


def asked_in(folder: Path, server: str | None = None, **more: Any) -> Lsp:
    """The tool, where the user's own PATH and environment lead into the repository."""
    lsp = Lsp(folder, server=server, **more)
    environment = cast("dict[str, str]", lsp.context.environment)
    environment["PATH"] = f"{folder}/bin:{environment['PATH']}"
    environment["VIRTUAL_ENV"] = f"{folder}/.venv"
    return lsp


def tree_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("server", PYTHON)
async def test_python_actions_have_their_known_answers(project, server):
    folder = project("python")
    before = tree_of(folder)
    total = {"path": "shapes/app.py", "line": 16, "symbol": "total"}
    async with asked_in(folder, server=server, actions=ALL) as lsp:
        assert await lsp.places("definition", **total) == {"shapes/base.py:25:5"}
        assert await lsp.places("references", **total) == {
            "shapes/app.py:3:40",
            "shapes/app.py:16:12",
            "shapes/base.py:25:5",
            "shapes/faulty.py:3:25",
            "shapes/faulty.py:5:14",
        }
        # An emoji is one character before the name, and two units to the server.
        emoji = {"path": "shapes/app.py", "line": 10, "column": 17}
        assert await lsp.places("definition", **emoji) == {"shapes/base.py:14:7"}
        assert "shapes/app.py:10:17" in await lsp.places("references", symbol="Square")
        assert "list[Shape]) -> float" in await lsp.text("hover", **total)
        assert "shapes: list[Shape]" in await lsp.text("signature", **total)
        area = {"path": "shapes/base.py", "symbol": "Shape.area"}
        assert "shapes/base.py:20:9" in await lsp.places("implementation", **area)
        made = {"path": "shapes/app.py", "line": 11, "symbol": "Square"}
        assert await lsp.places("type-definition", **made) == {"shapes/base.py:14:7"}
        symbols = await lsp.text("symbols", path="shapes/base.py")
        assert "  14:7  class Square(Shape):\n" in symbols
        assert "  20:9    def area(self) -> float:" in symbols
        assert await lsp.places("workspace-symbols", query="tot") == {"shapes/base.py:25:5"}
        incoming = await lsp.text("incoming-calls", path="shapes/base.py", symbol="total")
        assert "16:12  report | return total([smallest()])" in incoming
        outgoing = await lsp.places("outgoing-calls", path="shapes/app.py", symbol="report")
        assert outgoing == {"shapes/app.py:8:5", "shapes/base.py:25:5"}
        assert "5:14  error: " in await lsp.text("diagnostics", path="shapes/faulty.py")
        assert "error: " not in await lsp.text("diagnostics", path="shapes/app.py")
        assert "shapes/faulty.py\n  5:14  error" in await lsp.text("workspace-diagnostics")
        assert "ty " in await lsp.text("servers")
        assert await lsp.places("definition", symbol="Square.area") == {"shapes/base.py:20:9"}
        outcome = await lsp.call("hover", symbol="area")
        assert outcome.envelope["code"] == 1006
        assert "10:9" in outcome.text and "20:9" in outcome.text
        renaming = {"path": "shapes/base.py", "symbol": "total", "newName": "everything"}
        assert "+COUNT: int = everything([])" in await lsp.text("rename", dryRun=True, **renaming)
        await lsp.text("rename", **renaming)
        assert await lsp.places("definition", symbol="everything") == {"shapes/base.py:25:5"}
        faulty = {"path": "shapes/faulty.py", "line": 5}
        *_, title = (await lsp.text("codeAction", **faulty)).splitlines()
        await lsp.text("codeAction", query=title, **faulty)
        assert "ignore" in (folder / "shapes/faulty.py").read_text().splitlines()[4]
        assert "0 in 0 files" in await lsp.text("diagnostics", path="shapes/faulty.py")
        if server == "ty":
            # It would wait for a change where nothing is wrong.
            assert "0 in 0 files" in await lsp.text("workspace-diagnostics")
            await lsp.text("restart")
            assert "runs in" not in await lsp.text("servers")
    assert tree_of(folder) == before, "a server leaves nothing in the tree"


async def test_typescript_actions_have_their_known_answers(project):
    folder = project("typescript")
    before = tree_of(folder)
    total = {"path": "src/app.ts", "line": 9, "symbol": "total"}
    references = {
        "src/app.ts:1:25",
        "src/app.ts:9:10",
        "src/base.ts:16:17",
        "src/faulty.ts:1:10",
        "src/faulty.ts:3:30",
    }
    async with asked_in(folder, server="typescript-language-server", actions=ALL) as lsp:
        assert await lsp.places("references", **total) == references, "asked first, yet whole"
        assert await lsp.places("definition", **total) == {"src/base.ts:16:17"}
        emoji = {"path": "src/app.ts", "line": 4, "column": 44}
        assert "src/base.ts:7:14" in await lsp.places("definition", **emoji)
        assert "total(shapes: Shape[]): number" in await lsp.text("hover", **total)
        assert "total(shapes: Shape[]): number" in await lsp.text("signature", **total)
        area = {"path": "src/base.ts", "symbol": "Shape.area"}
        assert await lsp.places("implementation", **area) == {"src/base.ts:10:3"}
        square = {"path": "src/app.ts", "line": 5, "symbol": "square"}
        assert await lsp.places("type-definition", **square) == {"src/base.ts:7:14"}
        assert "10:3    area(): number {" in await lsp.text("symbols", path="src/base.ts")
        assert await lsp.places("workspace-symbols", query="tot") == {"src/base.ts:16:17"}
        incoming = await lsp.text("incoming-calls", path="src/base.ts", symbol="total")
        assert "9:10  report | return total([smallest()]);" in incoming
        outgoing = await lsp.places("outgoing-calls", path="src/app.ts", symbol="report")
        assert outgoing == {"src/app.ts:3:17", "src/base.ts:16:17"}
        assert "3:14  error: Type 'number'" in await lsp.text("diagnostics", path="src/faulty.ts")
        assert "3:14  error: Type 'number'" in await lsp.text("workspace-diagnostics")
        assert await lsp.places("definition", symbol="Square.area") == {"src/base.ts:10:3"}
        renaming = {"path": "src/base.ts", "symbol": "total", "newName": "everything"}
        await lsp.text("rename", **renaming)
        assert "= everything([]);" in (folder / "src/faulty.ts").read_text()
        line = {"path": "src/faulty.ts", "line": 3}
        titles = (await lsp.text("codeAction", **line)).splitlines()
        title = next(one for one in titles if one.startswith("Extract to constant"))
        await lsp.text("codeAction", query=title, **line)
        assert "newLocal" in (folder / "src/faulty.ts").read_text()
    assert tree_of(folder) == before


async def test_c_actions_have_their_known_answers(project):
    folder = project("c")
    before = tree_of(folder)
    area = {"path": "main.c", "line": 5, "symbol": "area"}
    async with asked_in(folder, server="clangd", actions=ALL) as lsp:
        known = {"main.c:5:43", "faulty.c:3:26", "shapes.c:3:8", "shapes.h:10:8"}
        async with asyncio.timeout(60):  # it may begin its index only when it has answered once
            while await lsp.places("references", **area) != known:
                await asyncio.sleep(0.05)
        assert await lsp.places("definition", **area) == {"shapes.c:3:8"}
        assert "double area(const struct square *shape)" in await lsp.text("hover", **area)
        assert "area(const struct square *shape)" in await lsp.text("signature", **area)
        small = {"path": "main.c", "line": 5, "symbol": "small"}
        assert await lsp.places("type-definition", **small) == {"shapes.h:5:8"}
        assert "  6:10    double side;" in await lsp.text("symbols", path="shapes.h")
        assert await lsp.places("workspace-symbols", query="are") == {"shapes.c:3:8"}
        incoming = await lsp.text("incoming-calls", path="shapes.h", symbol="area")
        assert "3:26  count | " in incoming and "5:43  report | " in incoming
        outgoing = await lsp.places("outgoing-calls", path="main.c", symbol="report")
        assert outgoing == {"shapes.c:3:8"}
        assert "3:31  error: " in await lsp.text("diagnostics", path="faulty.c")
        assert "3:31  error: " in await lsp.text("workspace-diagnostics")
        await lsp.text("rename", path="shapes.h", symbol="area", newName="size_of")
        assert "size_of(&small)" in (folder / "main.c").read_text()
    assert tree_of(folder) == before, "not even an index is left in the tree"


async def test_files_of_any_kind_have_a_right_answer(project):
    """CRLF, UTF-16 and a byte order mark, changed and deleted between two questions."""
    folder = project("python")
    source = 'import os\n\nLABEL = "🙂"; PLACE = os.sep\n\nprint(PLACE)\n'
    contents = {
        "crlf.py": source.replace("\n", "\r\n").encode(),
        "wide.py": source.encode("utf-16"),
        "marked.py": source.encode("utf-8-sig"),
    }
    async with asked_in(folder) as lsp:
        for name, content in contents.items():
            (folder / name).write_bytes(content)
            used = {"path": name, "line": 5, "symbol": "PLACE"}
            assert await lsp.places("definition", **used) == {f"{name}:3:14"}, name
        changed = contents["crlf.py"].replace(b"import os", b"# one more line\r\nimport os")
        (folder / "crlf.py").write_bytes(changed)
        used = {"path": "crlf.py", "line": 6, "symbol": "PLACE"}
        assert await lsp.places("definition", **used) == {"crlf.py:4:14"}
        (folder / "crlf.py").unlink()
        assert (await lsp.fault("definition", **used))[0] == 1003
        assert await lsp.places("definition", symbol="total") == {"shapes/base.py:25:5"}


async def test_a_file_that_was_never_opened_is_known_as_it_is_now(project):
    folder = project("python")
    asked = {"path": "shapes/base.py", "symbol": "total"}
    async with asked_in(folder) as lsp:
        assert len(await lsp.places("references", **asked)) == 5
        (folder / "shapes/new.py").write_text("from shapes.base import total\n\ntotal([])\n")
        assert "shapes/new.py:3:1" in await lsp.places("references", **asked)
        (folder / "shapes/new.py").write_text("from shapes.base import total\n\n\ntotal([])\n")
        assert "shapes/new.py:4:1" in await lsp.places("references", **asked)
        (folder / "shapes/new.py").unlink()
        assert len(await lsp.places("references", **asked)) == 5


async def test_calls_of_one_child_share_one_server_for_a_root(project):
    folder = project("python")
    async with asked_in(folder) as lsp:
        asked = [lsp.places("symbols", path=f"shapes/{name}.py") for name in ("app", "base")]
        await asyncio.gather(*asked)
        assert list(lsp.session.servers) == [("ty", str(folder))]


async def test_a_trusted_repository_s_own_server_is_run(project, tmp_path):
    folder, mark = project("python"), tmp_path / "mark"
    async with asked_in(folder, trusted=True) as lsp:
        assert (await lsp.fault("symbols", path="shapes/app.py"))[0] == 2001
    assert mark.read_text() == f"{folder}/node_modules/.bin/ty\n"
    mark.unlink()


async def test_the_project_itself_is_known():
    async with Lsp(ROOT) as lsp:
        used = {"path": "src/outrider/child/main.py", "symbol": "ToolExecutor"}
        (defined,) = await lsp.places("definition", **used)
        assert defined.startswith("src/outrider/tools/executor.py:")
        found = await lsp.places("references", symbol="OutriderError")
        assert len({place.split(":")[0] for place in found}) >= 10
        assert defined in await lsp.places("symbols", path="src/outrider/tools/executor.py")


async def test_what_no_file_was_opened_for_is_found_by_the_first_question(tmp_path):
    """typescript-language-server refuses and clangd knows nothing until a file is open."""
    for language in ("typescript", "c"):  # and nothing says how the C is compiled
        shutil.copytree(PROJECTS / language, tmp_path / language)
    asked = {
        "typescript": ("typescript-language-server", "Square", "src/base.ts:7:14"),
        "c": ("clangd", "area", "shapes.c:3:8"),
    }
    for language, (server, name, place) in asked.items():
        for question in ({"action": "workspace-symbols", "query": name}, {"action": "definition"}):
            async with Lsp(tmp_path / language, server=server) as lsp:
                assert place in await lsp.places(**{"symbol": name, **question})
                code, message = await lsp.fault("hover", symbol="nowhere")
                assert code == 1003 and f"{server} found no symbol 'nowhere'" in message


async def test_two_files_of_another_language_cost_no_answer(tmp_path):
    shutil.copytree(PROJECTS / "python", tmp_path, dirs_exist_ok=True)
    (tmp_path / "shapes/static").mkdir()
    for name in ("menu", "page"):
        (tmp_path / f"shapes/static/{name}.js").write_text(f"function {name}_total() {{}}\n")
    async with Lsp(tmp_path, server="typescript-language-server") as lsp:
        found = await lsp.places("workspace-symbols", query="total")
        assert {"shapes/base.py:25:5", "shapes/static/menu.js:1:10"} <= found
        assert await lsp.places("definition", symbol="total") == {"shapes/base.py:25:5"}
        for action in ("workspace-symbols", "definition", "hover", "references"):
            code, message = await lsp.fault(action, query="nowhere", symbol="nowhere")
            assert code == 1003 and "ty, typescript-language-server found no" in message
        assert "shapes/faulty.py\n  5:14  error" in await lsp.text("workspace-diagnostics")


@pytest.fixture
def prototypes(tmp_path):
    """C whose symbols are declared more than once."""
    (tmp_path / "a.h").write_text("int shared(int y);\nextern int counter;\n")
    (tmp_path / "a.c").write_text(
        '#include "a.h"\nstatic int helper(int x);\nstruct node;\nstruct node { int v; };\n'
        "int use(struct node *n) { return helper(n->v) + shared(counter); }\n"
        "static int helper(int x) {\n  return x;\n}\nint shared(int y) { return y; }\n"
    )
    (tmp_path / "b.c").write_text(
        '#include "a.h"\nint counter = 3;\nstatic int helper(int q) { return q; }\n'
        "int other(void) { return helper(1); }\n#ifdef FANCY\nint fancy;\n#endif\n"
    )
    return tmp_path


async def test_a_definition_is_told_from_its_prototype_wherever_one_asks(prototypes):
    definitions = {
        "a.c:6:12": [("a.c", "helper"), ("a.c:2:12", None), ("a.c:6:12", None), ("a.c:5:36", None)],
        "a.c:4:8": [("a.c", "node"), ("a.c:3:8", None)],
        "a.c:9:5": [("a.c", "shared"), ("a.h", "shared"), ("a.c:5", "shared")],
        "b.c:2:5": [("a.h", "counter"), ("b.c", "counter")],
    }
    async with Lsp(prototypes, server="clangd") as lsp:
        for definition, questions in definitions.items():
            for place, symbol in questions:
                path, *numbers = place.split(":")
                asked = dict(zip(("line", "column"), map(int, numbers), strict=False))
                asked |= {"symbol": symbol} if symbol else {}
                found = await lsp.places("definition", path=path, **asked)
                assert found == {definition}, (place, symbol)
        calls = await lsp.text("incoming-calls", path="a.c", symbol="helper")
        assert "5:34  use" in calls and "b.c" not in calls


async def test_symbols_of_one_name_are_all_named_with_their_places(prototypes):
    async with Lsp(prototypes, server="clangd") as lsp:
        code, message = await lsp.fault("hover", symbol="helper")
    assert code == 1006 and "2 symbols are named helper" in message
    assert "a.c:6:12" in message and "b.c:3:12" in message and "2:12" not in message


async def test_what_the_preprocessor_leaves_out_is_missing_with_advice(prototypes):
    async with Lsp(prototypes, server="clangd") as lsp:
        code, message = await lsp.fault("definition", symbol="fancy")
        assert code == 1003 and "with a compile_commands.json" in message
        (prototypes / "compile_flags.txt").write_text("-DFANCY\n")
        await lsp.session.aclose()
        assert await lsp.places("definition", symbol="fancy") == {"b.c:6:5"}


async def test_declarations_that_belong_together_are_one_symbol(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "grow.py").write_text("def grow(x):\n    return x\n")
    (tmp_path / "grow.pyi").write_text("def grow(x: int) -> int: ...\n")
    (tmp_path / "a.ts").write_text(
        "export function parse(x: number): number;\nexport function parse(x: any): any {\n"
        "  return x;\n}\nexport interface Shape { a: 1 }\nexport interface Shape { b: 2 }\n"
    )
    (tmp_path / "index.ts").write_text('export { parse } from "./a";\nexport * from "./a";\n')
    async with Lsp(tmp_path, server="typescript-language-server") as lsp:
        assert "of a.ts:2:17" in await lsp.text("hover", symbol="parse")
        assert "interface Shape" in await lsp.text("hover", symbol="Shape")
        assert {"a.ts:5:18", "a.ts:6:18"} == await lsp.places("definition", symbol="Shape")
        assert "def grow(x" in await lsp.text("hover", symbol="grow")

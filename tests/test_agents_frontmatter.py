"""Reading agent files: every form people write, and nothing that breaks it."""

import pytest
from hypothesis import given, strategies as st

from outrider.agents.definitions import DEFAULT_ROLE, Source, parse_definition
from outrider.agents.frontmatter import Notes, parse_frontmatter


def fields(text: str) -> dict[str, str]:
    found, _ = parse_frontmatter(f"---\n{text}\n---\nbody", Notes("/x/a.md")) or ([], "")
    return {field.key: field.text for field in found}


def agent(text: str, body: str = "Prompt."):
    definition, notes = parse_definition(
        f"---\nname: a\n{text}\n---\n{body}", "/x/a.md", Source.USER
    )
    assert definition is not None
    return definition, [str(note) for note in notes]


def rejected(text: str) -> str:
    definition, notes = parse_definition(text, "/x/a.md", Source.USER)
    assert definition is None
    assert notes[0].severity == "error"
    return str(notes[0])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Use when: always. See https://x.y/z", "Use when: always. See https://x.y/z"),
        ("Fixes issue #12 and C# code", "Fixes issue #12 and C# code"),
        ('"quoted: \\"yes\\" # not a comment"', 'quoted: "yes" # not a comment'),
        ("'it''s # here' # a comment", "it's # here"),
        ('"Foo" is a bar', '"Foo" is a bar'),
        ('"tab\\tline\\nx\\x41\\u00e9\\ud800\\u0000"', "tab\tline\nxAé\ufffd\ufffd"),
        ("Examples:\\n\\n<example>", "Examples:\\n\\n<example>"),
        ("folded\n  over\n\n  lines", "folded over lines"),
        ("\n  starts below\n  and goes on", "starts below and goes on"),
        ('"quoted\n  # over lines"', "quoted # over lines"),
        ("|\n  # Title\n\n    code\n  end", "# Title\n\n  code\nend"),
        (">-\n  one\n  two\n\n  three", "one two\n\nthree"),
        ("| # a comment\n  text", "text"),
        ("\n  - a\n  - b", "a, b"),
        ("", ""),
    ],
)
def test_description_is_read_as_its_author_meant(written, meant):
    assert fields(f"description: {written}\nmodel: m") == {"description": meant, "model": "m"}


@pytest.mark.parametrize(
    "written",
    [
        "read, grep",
        "[read, grep]",
        "[\"read\", 'grep'] # both",
        "\n  - read\n  - grep",
        "\n- read\n- grep",
        "\n  - read # files\n# - bash\n  # - edit\n  - 'grep'",
        "# two of them\n  - read\n  -\n  - grep",
        "[\n  read, # files\n  grep,\n]",
        "read,\n  grep",
        '"read, grep"',
        "|\n  read\n  grep",
        "read, grep # not bash",
        "Read, Grep",
        " ,read,,grep, ",
    ],
)
def test_every_way_to_write_a_list_gives_the_same_tools(written):
    definition, notes = agent(f"tools: {written}\nmodel: m:n")
    assert definition.tools == ("read", "grep")
    assert definition.model == "m:n"
    assert notes == []


def test_crlf_bom_and_blank_lines_before_do_no_harm():
    text = "\ufeff\r\n---\r\nname: a\r\nreadonly: true\r\n---\r\nOne\r\nTwo\r\n"
    definition, notes = parse_definition(text, "/x/a.md", Source.USER)
    assert definition is not None and definition.readonly
    assert definition.system_prompt == "One\nTwo"
    assert notes == []


def test_rule_of_dashes_in_the_body_stays_there():
    assert agent("", "One\n\n---\n\nTwo")[0].system_prompt == "One\n\n---\n\nTwo"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Just prose.", "/x/a.md:1: error: no frontmatter"),
        ("", "/x/a.md:1: error: no frontmatter"),
        ("\n\n# Title", "/x/a.md:3: error: no frontmatter"),
        ("---\nname: a\nreadonly: true\n", "/x/a.md:1: error: the frontmatter isn't closed"),
        ("---\ndescription: d\n---\n", "/x/a.md:1: error: no name"),
        ("---\nmodel: m\nname:\n---\n", "/x/a.md:3: error: no name"),
        ("---\nname: two words\n---\n", "/x/a.md:2: error: 'two words' isn't a valid name"),
        ("---\nname: ../up\n---\n", "/x/a.md:2: error: '../up' isn't a valid name"),
        ("---\nname: -rf\n---\n", "isn't a valid name"),
        ('---\nname: "a\\x1b[2J"\n---\n', "'a\\x1b[2J' isn't a valid name"),
        (f"---\nname: {'a' * 65}\n---\n", "isn't a valid name"),
        ("---\nname: [a, b]\n---\n", "isn't a valid name"),
        ("---\nname: a\n---\nzero\0", "/x/a.md:4: error: contains a NUL byte"),
        ("---\n" + "k: v\n" * 101 + "---\n", "error: more than 100 keys"),
        ("---\nname: a\n" + "- x\n" * 101 + "---\n", "error: more than 100 lines that aren't"),
    ],
)
def test_unusable_file_is_named_with_line_and_fault(text, complaint):
    assert complaint in rejected(text)


@pytest.mark.parametrize(
    "written", ["true", "1", "True", "TRUE", '"true"', "true # always", "'1'", "yes", "On"]
)
def test_true_is_true_however_it_is_written(written):
    definition, notes = agent(f"readonly: {written}\ndisabled: {written}")
    assert definition.readonly and definition.disabled
    assert notes == []


@pytest.mark.parametrize("written", ["false", "0", "no", "off", "", "# true"])
def test_false_is_false_without_a_word(written):
    definition, notes = agent(f"readonly: {written}")
    assert not definition.readonly
    assert notes == []


@pytest.mark.parametrize("written", ["treu", "y", "truee", "[true]", "2", "falsch"])
def test_a_switch_that_cannot_be_read_counts_as_the_safe_value_and_is_told(written):
    definition, notes = agent(f"readonly: {written}\ndisabled: {written}")
    assert definition.readonly and definition.disabled
    assert notes[0].startswith("/x/a.md:3: warning: readonly:") and "read as true" in notes[0]


@pytest.mark.parametrize("key", ["readOnly", "read-only", "read_only", "readonyl", "ReadOnly"])
def test_misspelt_readonly_still_binds(key):
    definition, notes = agent(f"{key}: true")
    assert definition.readonly
    assert notes == [f"/x/a.md:3: warning: unknown key {key}; taken as readonly"]


def test_enabled_is_not_taken_for_disabled():
    definition, notes = agent("enabled: true")
    assert not definition.disabled
    assert "unknown key enabled, ignored" in notes[0]


@pytest.mark.parametrize(
    ("line", "warning"),
    [
        ("tool: read", "unknown key tool, ignored; did you mean tools?"),
        ("Description: x", "unknown key Description, ignored; did you mean description?"),
        ("outputSchema: x", "did you mean output_schema?"),
        ("color: blue", "unknown key color, ignored"),
        ("some prose", "not a `key: value` line, ignored: 'some prose'"),
        ("name: b", "duplicate key name; line 2 is used"),
        ("tools: grpe", "unknown tool 'grpe'; did you mean grep?"),
        ("tools: WebFecth", "unknown tool 'WebFecth'; did you mean fetch_content?"),
        ("tools: mcp__github__search", "unknown tool 'mcp__github__search'; ignored unless"),
        ("tools: Task", "tool 'Task' is never given to agents"),
        ("tools: report_back", "tool 'report_back' is never given to agents"),
        ("tools: read grep", "tool 'read grep' isn't a plain name (separate with commas)"),
        ("tools:", "tools is empty, so the agent gets none"),
        ("model: two words", "'two words' isn't a model, ignored"),
    ],
)
def test_what_is_ignored_is_named_with_its_line(line, warning):
    definition, notes = agent(line)
    assert definition.name == "a"
    assert len(notes) == 1
    assert notes[0].startswith("/x/a.md:3: warning: ")
    assert warning in notes[0]


def test_nested_mapping_under_an_ignored_key_is_one_warning():
    _, notes = agent("hooks:\n  PreToolUse:\n    - matcher: Bash\nmodel: m:n")
    assert notes == ["/x/a.md:3: warning: unknown key hooks, ignored"]


def test_flood_of_warnings_is_cut_and_counted():
    definition, notes = agent("\n".join(f"- item {number}" for number in range(90)))
    assert definition.name == "a"
    assert len(notes) == 21
    assert notes[-1] == "/x/a.md: warning: and 70 more warnings"


def test_tool_names_of_other_programs_are_mapped():
    written = (
        "Read, Grep, Glob, LS, Bash, Edit, MultiEdit, Write, WebFetch, WebSearch, NotebookRead"
    )
    definition, notes = agent(f"tools: {written}")
    assert definition.tools == (
        "read",
        "grep",
        "find",
        "ls",
        "bash",
        "edit",
        "write",
        "fetch_content",
        "web_search",
    )
    assert notes == []


def test_restricted_shell_does_not_become_a_free_one():
    definition, notes = agent("tools: Read, Bash(git log:*, git diff:*), Grep")
    assert definition.tools == ("read", "grep")
    assert "a rule in parentheses can't be enforced" in notes[0]


def test_nothing_listed_and_an_empty_list_are_different():
    assert agent("model: m:n")[0].tools is None
    assert agent("tools: []")[0].tools == ()
    assert agent("tools: []")[1] == []


def test_long_list_of_tools_is_bounded():
    definition, notes = agent("tools: " + ", ".join(f"tool{number}" for number in range(100)))
    assert definition.tools is not None and len(definition.tools) == 64
    assert "100 tools listed" in notes[0]


@pytest.mark.parametrize("written", ["inherit", "Inherit", '"inherit"', ""])
def test_inherited_model_is_no_model(written):
    assert agent(f"model: {written}")[0].model is None


@pytest.mark.parametrize("written", ["sonnet", "opus", "haiku"])
def test_short_model_name_of_claude_code_is_kept_without_a_warning(written):
    definition, notes = agent(f"model: {written}")
    assert definition.model == written
    assert notes == []


def test_model_keeps_its_colon():
    assert agent("model: openai-chat:gpt-x # small")[0].model == "openai-chat:gpt-x"


@pytest.mark.parametrize(
    ("header", "body", "prompt"),
    [
        ("description: D", "Body", "Body"),
        ("description: D", " \n ", "D"),
        ("model: m:n", "", DEFAULT_ROLE),
        ('description: "\\x07"', "", DEFAULT_ROLE),
    ],
)
def test_empty_body_falls_back_to_description_then_to_a_role(header, body, prompt):
    assert agent(header, body)[0].system_prompt == prompt


def test_description_can_not_steer_a_terminal_or_hide_words():
    written = '"a\\x1b[31mb\\u202ec\\u200bd"'
    assert agent(f"description: {written}")[0].description == "a[31mbcd"


def test_schema_path_is_relative_to_the_file():
    assert agent("output_schema: ../s/x.json # shape")[0].output_schema == "/s/x.json"
    assert agent("output_schema:")[0].output_schema is None


def test_lone_surrogates_do_not_get_into_a_definition():
    definition, _ = agent("description: a\ud800b", "body \udfff")
    (definition.description + definition.system_prompt).encode("utf-8")


ALPHABET = st.sampled_from(
    [*"abc:-#'\"[](),|>\\ \t\n\r\0\ufeff\ud800é", "---\n", "\n  - ", "name: a\n"]
)
TEXTS = st.lists(ALPHABET, max_size=60).map("".join)


@given(TEXTS | st.text())
def test_reading_any_text_never_raises(text):
    for whole in (text, f"---\n{text}\n---\n{text}", f"---\nname: a\ntools: {text}\n---\n"):
        notes = Notes("/x/a.md")
        assert parse_frontmatter(whole, notes) is not None or notes.diagnostics
        definition, notes = parse_definition(whole, "/x/a.md", Source.PROJECT)
        assert definition is not None or any(note.severity == "error" for note in notes)
        if definition is not None:
            "".join(map(str, (definition, *notes))).encode("utf-8")


@given(
    st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).map(lambda text: f"a{text}")
)
def test_simple_value_is_always_taken_as_it_is(value):
    assert fields(f"description: {value}") == {"description": value}


@pytest.mark.parametrize(
    "unit", ["a,", "(", "[", '"', "'", "\\", " #", "k:\n", " ", "- \n", "|\n", '"a" ', "a(b,"]
)
def test_hostile_file_of_full_size_is_read_in_linear_time(unit):
    text = unit * (256 * 1024 // len(unit))
    for key in ("tools", "description", "readonly"):
        parse_definition(f"---\nname: a\n{key}: {text}\n---\n", "/x/a.md", Source.PROJECT)

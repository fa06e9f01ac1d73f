"""Words that mean nothing in a question about code, and words that show what it asks for."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Never searched for.
STOP = _words(
    """
    a about above after again all also always am an and any are as at be because been before being
    below between both but by can could did do does doing down during each either else every exactly
    few for from further give gives had has have having he her here hers him his how i if in into
    is it its itself just let like many may me might more most must my never no nor not now of off
    on once only or other our out over own per please same shall she should show shows so some such
    tell than that the their them then there these they this those through to too under until up
    us very was we were what whatever when where whether which while who whom whose why will with
    within without would you your actually currently explain describe find locate identify look
    search point happens happen tell want wants need needs know thing things way ways kind kinds
    come comes coming go goes going take takes taken say says said s t don doesn isn aren re ve ll
    """
)

# Too common alone; searched for only if there is little else.
WEAK = _words(
    """
    answer app application behaviour behavior called calls class classes code codebase data field
    fields file files folder function functions get gets implementation library line lines list
    lists logic make makes method methods module modules name names object objects package part
    parts place places program project question repo report repository script set source string
    summarise summarize summary system task type types use used user users uses using value values
    variable variables work works
    """
)

# What is done to a thing. Code often uses another word for it, so it weighs less.
BEHAVIOUR = (
    "appl", "bound", "cap", "check", "clos", "comput", "decid", "detect", "enforc", "execut",
    "guard", "handl", "implement", "invok", "limit", "load", "parse", "pars", "prevent", "process",
    "reject", "refus", "return", "send", "sent", "stor", "trigger", "validat", "writ",
)  # fmt: skip
# Other words for the same action, as code uses them.
DEEDS = (
    ("ask", "prompt"),
    ("calculat", "comput"),
    ("check", "verif", "validat", "ensur"),
    ("choos", "chos", "select", "pick", "decid", "determin", "detect", "resolv"),
    ("delet", "remov", "clean", "prun", "discard", "drop", "strip"),
    ("display", "print", "render"),
    ("enforc", "exceed"),
    ("guess", "infer", "detect"),
    ("mak", "made", "creat", "build", "built"),
    ("sav", "stor", "persist", "writ"),
)
DEFINITION = ("declar", "defin", "signatur", "default")

# Abbreviations in code, as whole words of a name: `app_dir`, `tmpDir`.
SHORT = {
    "application": "app", "argument": "arg", "authentication": "auth", "authorisation": "auth",
    "authorization": "auth", "command": "cmd", "configuration": "config", "connection": "conn",
    "database": "db", "dependency": "dep", "description": "desc", "dictionary": "dict",
    "directory": "dir", "document": "doc", "environment": "env", "error": "err",
    "expression": "expr", "identifier": "id", "information": "info", "initialise": "init",
    "initialize": "init", "language": "lang", "length": "len", "maximum": "max", "message": "msg",
    "minimum": "min", "number": "num", "package": "pkg", "parameter": "param",
    "password": "passwd", "previous": "prev", "reference": "ref", "repository": "repo",
    "request": "req", "response": "resp", "specification": "spec", "statistics": "stats",
    "temporary": "tmp", "variable": "var", "version": "ver",
}  # fmt: skip

OVERVIEW = _words(
    "overview architecture structure layout readme about purpose repository repo project"
)

# A task that starts with one of these asks for a change or for a command.
CHANGE = _words(
    """
    add build change commit create delete deploy edit execute fix generate implement improve insert
    install migrate modify move refactor remove rename replace rewrite run update upgrade write
    """
)

TYPE_WORDS = _words("class classes exception exceptions interface struct type types")
TEST_WORDS = _words("test tests tested testing spec specs")
DOC_WORDS = _words("doc docs documentation documented readme changelog manual guide")

CODE_SUFFIXES = _words(
    """
    py pyi js jsx mjs cjs ts tsx java kt kts scala go rs c h cc cpp hpp cs rb php swift m mm lua
    pl sh bash zsh fish ps1 sql r jl ex exs erl hs ml clj dart vue svelte proto graphql zig nim
    """
)
DOC_SUFFIXES = _words("md mdx rst txt adoc tex html htm org")
CONFIG_SUFFIXES = _words("json jsonc yaml yml toml ini cfg conf env properties xml")

"""`python3 -m benchmarks.masked`: how many secrets pass the sanitiser, and what else it changes.

Random values stand in many contexts where a secret may be found; every one that is still there
after masking has passed. Then the source of the packages in this environment is masked, in which
next to nothing is secret: every line that changes is counted, and some are shown by kind.

python3 -m benchmarks.masked [--values PER_CONTEXT] [--only values|corpus] [--packages NAME …]
"""

import argparse
import random
import re
import sys
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from outrider.masking import Masker

MASKER = Masker(project="/home/someone/project", home="/home/someone")
MAX_EXAMPLES = 8
SOURCES = frozenset(
    [
        ".py",
        ".pyi",
        ".js",
        ".mjs",
        ".cjs",
        ".ts",
        ".json",
        ".md",
        ".rst",
        ".txt",
        ".toml",
        ".yaml",
        ".yml",
        ".h",
        ".html",
        ".css",
        ".sh",
        ".ps1",
        ".cfg",
        ".ini",
        ".gypi",
    ]
)

# Where secrets stand. In those whose name begins with "url" the value is percent-encoded.
CONTEXTS: dict[str, str] = {
    "yaml password": "db:\n  password: {}\n  port: 1\n",
    "yaml token": "access_token: {}\n",
    "yaml secret": "client_secret: {}\n",
    "yaml api key": "api_key: {}\n",
    "yaml list": "users:\n  - name: al\n    password: {}\n",
    "yaml quoted": "password: '{}'\n",
    "yaml block": "password: |\n  {}\nnext: 1\n",
    "log line": "2024-01-02 INFO using token: {} for the request",
    "log pair": "level=info msg=ready token={} user=al",
    "log json": '{{"level":"info","auth_token":"{}","n":1}}',
    "ini": "[db]\npassword = {}\nport = 1\n",
    "ini secret key": "aws_secret_access_key = {}\n",
    "properties": "spring.datasource.password={}\n",
    "properties token": "service.api.token={}\n",
    "environment": "export DB_PASSWORD={}\n",
    "environment token": "GITHUB_TOKEN={}\n",
    "environment key": "STRIPE_LIVE_KEY={}\n",
    "dockerfile": "ENV API_TOKEN {}\n",
    "docker run": "docker run -e DB_PASSWORD={} image",
    "windows set": 'setx DB_PASSWORD "{}"',
    "powershell": '$env:API_TOKEN = "{}"',
    "python": 'password = "{}"',
    "python token": 'token = "{}"',
    "python single": "access_token = '{}'",
    "python triple": 'password = """{}"""',
    "python triple below": 'API_KEY = """\n{}\n"""',
    "python dict": '{{"api_key": "{}", "n": 1}}',
    "python annotated": 'api_key: str = "{}"',
    "python argument": 'connect("al", password="{}")',
    "javascript": "const accessToken = '{}';",
    "javascript object": "const config = {{ apiKey: `{}` }};",
    "go": 'clientSecret := "{}"',
    "ruby": ":password => '{}',",
    "java": 'source.setPassword("{}");',
    "json": '{{"client_secret": "{}"}}',
    "json colons": '{{"Smtp:Password": "{}"}}',
    "json dots": '{{"mail.smtp.password": "{}"}}',
    "json underscores": '{{"ConnectionStrings__Token": "{}"}}',
    "json escaped": '{{"text": "{{\\"token\\": \\"{}\\"}}"}}',
    "xml": "<password>{}</password>",
    "xml attribute": '<add key="ApiKey" value="{}" />',
    "html input": '<input type="password" name="pw" value="{}">',
    "html csrf": '<input type="hidden" name="csrf_token" value="{}">',
    "two words": "API key: {}\n",
    "two words prose": "The API key is {} and it works.",
    "two words secret": "Secret key: {}\n",
    "two words bold": "**API key:** `{}`\n",
    "three words": "Secret access key: {}\n",
    "prose password": "The password is {}, he said.",
    "prose changed": "The password was changed to `{}` today.",
    "prose set": "I set the admin password to {} for now.",
    "markdown bold": "- **Password:** {}\n",
    "markdown code": "Token: `{}`\n",
    "markdown table": "| User | Password |\n|------|----------|\n| al | {} |\n",
    "markdown column": "| Name | API key | Role |\n|---|---|---|\n| al | `{}` | admin |\n",
    "csv": "name,password,role\nal,{},admin\n",
    "csv quoted": '"user","api_key"\n"al","{}"\n',
    "tsv": "name\ttoken\nal\t{}\n",
    "pgpass": "db.example.com:5432:shop:al:{}\n",
    "netrc": "machine x.org login al password {}\n",
    "kubeconfig": "    client-key-data: {}\n",
    "jdbc thin": "jdbc:oracle:thin:al/{}@db.example.com:1521:orcl",
    "jdbc query": "jdbc:postgresql://db/shop?user=al&password={}",
    "connection string": "Server=db;Uid=al;Pwd={};Encrypt=true",
    "wifi": 'network={{\n  ssid="home"\n  psk="{}"\n}}',
    "wifi bare": "psk={}\n",
    "terraform state": '"type": "random_password",\n"attributes": {{\n  "result": "{}"\n}}',
    "terraform variable": 'variable "db_password" {{\n  default = "{}"\n}}',
    "htpasswd": "htpasswd -b .htpasswd al {}",
    "mysql": "mysql -u root -p{} shop",
    "sshpass": "sshpass -p {} ssh al@host",
    "curl user": "curl -u al:{} https://example.com",
    "flag": "tool --password {} run",
    "flag equals": "tool --api-key={} run",
    "url address": "postgres://al:{}@db.example.com/shop",
    "url query": "GET https://example.com/x?access_token={}&page=2",
    "url signature": "https://x.blob.core.windows.net/c?sv=2022&sig={}&se=1",
    "bearer": "Authorization: Bearer {}",
    "header": "curl -H 'X-Api-Key: {}' https://example.com",
    "cookie": "Set-Cookie: session={}; Path=/; HttpOnly",
    "sql": "ALTER ROLE al PASSWORD '{}';",
    "sql identified": "CREATE USER al IDENTIFIED BY '{}'",
}

# Contexts that nobody looked at while the rule was made.
HELD_OUT: dict[str, str] = {
    "toml": '[auth]\nrefresh_token = "{}"\n',
    "yaml camel": "databasePassword: {}\n",
    "yaml dash": "consumer-secret: {}\n",
    "log brackets": "[auth] session token: {} (expires in 5 minutes)",
    "rust": 'let secret_key = "{}";',
    "php define": "define('DB_PASSWORD', '{}');",
    "kotlin": 'val apiToken: String = "{}"',
    "csharp": 'var password = @"{}";',
    "swift": 'let clientSecret: String = "{}"',
    "perl": "my $password = '{}';",
    "json nested": '{{"auth": {{"accessToken": "{}"}}}}',
    "github actions": "      env:\n        NPM_TOKEN: {}\n",
    "ansible": "ansible_become_pass: {}\n",
    "prose use": "Use this password: {}\n",
    "prose new": "Your new API key is {}\n",
    "csv semicolon": "host;user;secret\ndb;al;{}\n",
    "markdown header": "| Service | Token |\n| --- | --- |\n| mail | {} |\n",
    "env file": "SECRET_KEY_BASE={}\nPORT=1\n",
    "docker secret": "docker login -u al -p {} registry.example.com",
    "url form": "grant_type=password&client_secret={}&scope=all",
    "xml element": "<clientSecret>{}</clientSecret>",
    "helm": "helm install x --set auth.password={} chart",
}

WORDS = [
    "copper",
    "window",
    "lantern",
    "river",
    "yellow",
    "garden",
    "silver",
    "mountain",
    "button",
    "pocket",
    "candle",
    "marble",
    "ticket",
    "harbor",
    "velvet",
    "rocket",
    "pepper",
    "saddle",
    "walnut",
    "bridge",
    "thunder",
    "basket",
    "orange",
    "violin",
    "puzzle",
    "anchor",
    "blanket",
    "cactus",
    "dragon",
    "feather",
    "hammer",
    "island",
    "jacket",
    "kitchen",
    "ladder",
    "magnet",
    "needle",
    "ocean",
    "pillow",
    "quartz",
    "ribbon",
    "shadow",
    "temple",
    "umbrella",
    "valley",
    "whisper",
    "zipper",
    "apple",
    "bottle",
    "castle",
]

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"


def _from(letters: str) -> Callable[[random.Random, int], str]:
    return lambda chooser, length: "".join(chooser.choices(letters, k=length))


def _base64(chooser: random.Random, length: int) -> str:
    """Return base 64 of either kind, sometimes padded."""
    value = _from(LETTERS + DIGITS + chooser.choice(("+/", "-_")))(chooser, length)
    return value[:-2] + "==" if chooser.random() < 0.2 else value


def _letters(chooser: random.Random, length: int) -> str:
    return _from(chooser.choice((LETTERS, LETTERS, LETTERS[26:])))(chooser, length)


def _words(chooser: random.Random, length: int) -> str:
    """Return words with dashes between them, some in capitals, some with a number behind."""
    words = [chooser.choice(WORDS)]
    while len("-".join(words)) < max(16, length - 6) or len(words) < 3:
        words.append(chooser.choice(WORDS))
    if chooser.random() < 0.3:
        words = [word.capitalize() for word in words]
    if chooser.random() < 0.3:
        words.append(str(chooser.randrange(10, 1000)))
    return "-".join(words)


ALPHABETS: dict[str, Callable[[random.Random, int], str]] = {
    "hexadecimal": _from("0123456789abcdef"),
    "base 64": _base64,
    "base 32": _from(LETTERS[:26] + "234567"),
    "letters only": _letters,
    "words joined": _words,
}

Passed = dict[tuple[str, str], list[str]]
"""For a context and an alphabet the values that passed."""


def passed(contexts: dict[str, str], values: int, seed: int = 1) -> Passed:
    """Return what passes of so many values per context and alphabet, 16 to 64 characters long."""
    chooser = random.Random(seed)
    found: Passed = {}
    for context, frame in contexts.items():
        for alphabet, make in ALPHABETS.items():
            tried = [make(chooser, chooser.randint(16, 64)) for _ in range(values)]
            found[context, alphabet] = [value for value in tried if _passes(context, frame, value)]
    return found


def _passes(context: str, frame: str, value: str) -> bool:
    value = quote(value, safe="") if context.startswith("url") else value
    text = frame.format(value)
    masked = MASKER.text(text)
    return value in masked or "[masked:" not in masked or len(_left(value, masked)) >= 8


def _left(value: str, masked: str) -> str:
    """Return the end of the value where only its beginning was masked, or the beginning."""
    for size in range(len(value) - 1, 7, -1):
        for part in (value[:size], value[-size:]):
            if part in masked:
                return part
    return ""


def rates(found: Passed, values: int, by: int) -> list[tuple[str, float]]:
    """Return how many in 200 pass, by context (0) or by alphabet (1), the most first."""
    groups: dict[str, list[int]] = defaultdict(list)
    for key, left in found.items():
        groups[key[by]].append(len(left))
    found_rates = [(k, 200 * sum(v) / (values * len(v))) for k, v in groups.items()]
    return sorted(found_rates, key=lambda pair: -pair[1])


def print_values(label: str, contexts: dict[str, str], values: int) -> None:
    """Print how many of the values pass."""
    found = passed(contexts, values)
    total = len(found) * values
    number = sum(map(len, found.values()))
    print(f"{label}: {len(contexts)} contexts, {total} values, {200 * number / total:.2f} in 200")
    for name, rate in rates(found, values, by=1):
        print(f"  {rate:6.2f} in 200  {name}")
    for name, rate in rates(found, values, by=0):
        if rate:
            some = [left[0] for (context, _), left in found.items() if context == name and left]
            print(f"  {rate:6.2f} in 200  {name:20} {'  '.join(some)}"[:220])


def corpus(packages: Iterable[str] = ()) -> Iterator[tuple[Path, list[str]]]:
    """Yield the source files of the packages in this environment, or of folders, as lines."""
    root = Path(sysconfig.get_path("purelib"))
    for top in [root / name for name in packages] or [root]:
        for path in sorted(top.rglob("*")):
            if path.suffix in SOURCES and path.is_file() and "outrider" not in path.parts:
                try:
                    yield path.relative_to(top.parent), path.read_text("utf-8").split("\n")
                except UnicodeDecodeError:
                    continue


def changed_lines(files: Iterable[tuple[Path, list[str]]]) -> tuple[int, dict[str, list[str]]]:
    """Return the number of lines, and those that masking changes by kind."""
    count = 0
    changed: dict[str, list[str]] = defaultdict(list)
    for path, lines in files:
        count += len(lines)
        for number, (old, new) in enumerate(zip(lines, MASKER.lines(lines), strict=True), 1):
            if old != new:
                changed[_kind(old, new)].append(f"{path}:{number}: {_around(old, new)}")
    return count, changed


def _kind(old: str, new: str) -> str:
    kinds = Counter(re.findall(r"\[masked:([a-z-]+)\]", new))
    kinds -= Counter(re.findall(r"\[masked:([a-z-]+)\]", old))
    return min(kinds, default="path")


def _around(old: str, new: str) -> str:
    """Return the part of the line that changes, with what leads up to it."""
    pairs = enumerate(zip(old, new, strict=False))
    at = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    return old[max(0, at - 60) : at + 60].strip()


def print_corpus(packages: list[str], examples: int) -> None:
    """Print how many lines of the corpus change, and some of them by kind."""
    count, changed = changed_lines(corpus(packages))
    total = sum(map(len, changed.values()))
    print(f"corpus: {count} lines, {total} changed, {10_000 * total / count:.2f} in 10,000")
    for kind, lines in sorted(changed.items(), key=lambda pair: -len(pair[1])):
        print(f"  {len(lines):5} {kind}")
        step = max(1, len(lines) // examples)
        for line in lines[::step][:examples]:
            print(f"        {line}")


def main(arguments: list[str] | None = None) -> int:
    """Print what passes and what changes."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.masked", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--values", type=int, default=200, help="per context and alphabet")
    parser.add_argument("--only", choices=("values", "corpus"))
    parser.add_argument("--packages", nargs="+", default=[], help="only these, or other folders")
    parser.add_argument("--examples", type=int, default=MAX_EXAMPLES, help="lines shown per kind")
    options = parser.parse_args(arguments)
    if options.only != "corpus":
        print_values("contexts", CONTEXTS, options.values)
        print_values("held out", HELD_OUT, options.values)
    if options.only != "values":
        print_corpus(options.packages, options.examples)
    return 0


if __name__ == "__main__":
    sys.exit(main())

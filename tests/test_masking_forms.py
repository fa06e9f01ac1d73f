"""Secrets in the forms that files, terminals and programs give them are masked, by family."""

import json
from base64 import b64encode, urlsafe_b64encode
from html import escape
from urllib.parse import quote

import pytest

from masking_examples import JWT, PEM, PEM_BODY, dashed, hexadecimal, mixed, streamed, upper
from outrider.masking import Masker, tokens

MASKER = Masker(project="/home/alice/project", home="/home/alice")
WORD, PLAIN, CODE = "Wonder7land!x", "wonderland", "d29uZGVybGFuZA=="
HEX = "9f86d081884c7d659a2feaa0c55ad015"
TOKEN = dashed("ghp", "_", mixed(36))
ENV = f"PORT=8080\nDB_PASSWORD={WORD}\nGITHUB_TOKEN={TOKEN}\nLOG=info\n"
RED, RESET = "\x1b[31m", "\x1b[0m"
SHA512 = "$6$rounds=5000$Wq3kTzLp$" + mixed(86, 3)
BCRYPT = "$2b$12$" + mixed(53, 4)


def encoded(text: str, width: int = 0) -> str:
    """Return `text` in base 64, in lines of `width`."""
    code = b64encode(text.encode()).decode()
    return "\n".join(code[at : at + width] for at in range(0, len(code), width)) if width else code


def spelled(text: str, pattern: str) -> str:
    """Return `text` with each sign in it written as a number."""
    return "".join(c if c.isalnum() else pattern.format(ord(c)) for c in text)


# By family: the text with @@ where the secret stands, and the secret.
FORMS: dict[str, list[tuple[str, str]]] = {
    "colour": [
        (f"{RED}password:{RESET} @@\n", WORD),
        (f"{RED}password{RESET}: @@\n", WORD),
        (f"{RED}password{RESET}: {RED}@@{RESET}\n", WORD),
        ("\x1b[1m\x1b[38;5;208mpassword\x1b[0m\x1b[2m=\x1b[0m\x1b[32m'@@'\x1b[39m\n", WORD),
        (f'{RED}"password"{RESET}{RED}:{RESET} {RED}"@@"{RESET}', WORD),
        (f"{RED}@@{RESET}", TOKEN),
        (f"token {RED}@@{RESET} ok", TOKEN),
        ("\x9b31m@@\x9b0m", TOKEN),
        ("\x1b]8;;https://x.org\x1b\\@@\x1b]8;;\x1b\\", TOKEN),
        ("\x1b]8;;https://al:@@@x.org/\x07link\x1b]8;;\x07", WORD),
        ("\x1b]0;api_key=@@\x07$ ", mixed(32)),
        (r"\u001b[32m@@\u001b[0m", TOKEN),
        (r"\033[32mpassword:\033[0m @@", WORD),
        (r"echo -e '\e[32mpassword:\e[0m @@'", WORD),
        (r"^[[32mpassword:^[[0m @@", WORD),
        ("\x1b(B\x1b[mexport DB_PASSWORD=\x1b[32m@@\x1b(B\x1b[m", WORD),
        (f"Authorization:{RED} Bearer {RESET}@@", mixed(30)),
        (f"https://al:{RED}@@{RESET}@example.org/", WORD),
        ("pass\u200bword: @@\n", WORD),
    ],
    "encoded": [
        (encoded(ENV), ""),
        (encoded(ENV * 3, 76), ""),
        (encoded(ENV * 3, 64).replace("\n", "\r\n"), ""),
        (urlsafe_b64encode(ENV.encode()).decode().rstrip("="), ""),
        ('{"content": "' + encoded(ENV * 4, 60).replace("\n", "\\n") + '"}', ""),
        (f"echo {encoded(ENV)} | base64 -d > .env", ""),
        (f"ENV_FILE: {encoded(ENV)}", ""),
        (encoded(f'{{"auths":{{"x.org":{{"password":"{WORD}"}}}}}}'), ""),
        (encoded(encoded(ENV)), ""),
        (encoded(PEM), ""),
        (encoded(f"here it is: {TOKEN}, thanks"), ""),
        ("password&#61;@@", WORD),
        ("password&equals;@@;", mixed(20)),
        ("&quot;password&quot;: &quot;@@&quot;", WORD),
        ("&#34;api_key&#34;&#58; &#34;@@&#34;", mixed(32)),
        ("&lt;password&gt;@@&lt;/password&gt;", WORD),
        ("&amp;quot;password&amp;quot;:&amp;quot;@@&amp;quot;", WORD),
        (escape('<input type="password" name="pw" value="@@">'), WORD),
        ("ghp&#95;@@", mixed(36)),
        ("ghp&#x5f;@@", mixed(36)),
        (r"db.password\=@@", WORD),
        (r"db.password\:@@", WORD),
        (r"spring.datasource.password=\u0057@@", WORD[1:]),
        (r"password\u003d@@", WORD),
        (r"{\u0022password\u0022\u003a\u0022@@\u0022}", WORD),
        (r'"password\x3d@@"', WORD),
        ("q=%7B%22password%22%3A%22@@%22%7D", WORD),
        ("redirect=https%3A%2F%2Fal%3A@@%40example.org%2F", "Wonder7land"),
        ("next=%2Flogin%253Fpassword%253D@@", WORD),
        ("ghp%5F@@", mixed(36)),
        ("data=" + spelled(f"DB_PASSWORD={WORD}", "%{:02X}"), WORD[:11]),
        ("data=" + spelled(f"DB_PASSWORD={WORD}", "&#{};"), WORD[:11]),
    ],
    "objects": [
        ("apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  conf: @@\n", CODE),
        ("apiVersion: v1\ndata:\n  conf: @@\nkind: Secret\nmetadata:\n  name: a\n", CODE),
        ("kind: Secret\nstringData:\n  conf: @@\ntype: Opaque\n", PLAIN),
        ('kind: Secret\nstringData:\n  "conf.ini": "@@"\n', PLAIN),
        ("kind: Secret\nstringData:\n  conf.ini: |\n    [a]\n    b = @@\n", PLAIN),
        ("kind: List\nitems:\n- apiVersion: v1\n  data:\n    conf: @@\n  kind: Secret\n", CODE),
        ('{"kind": "Secret", "data": {"conf": "@@"}}', CODE),
        ('{"apiVersion":"v1","data":{"conf":"@@"},"kind":"Secret"}', CODE),
        ('{\n  "kind": "Secret",\n  "stringData": {\n    "conf": "@@"\n  }\n}', PLAIN),
        ("kind: 'Secret'\ndata: {conf: @@}\n", CODE),
        (r'a: "{\"data\":{\"conf\":\"@@\"},\"kind\":\"Secret\"}"', CODE),
        ('{"url": {"sensitive": true, "type": "string", "value": "@@"}}', PLAIN),
        ('{\n  "url": {\n    "sensitive": true,\n    "value": "@@"\n  }\n}', PLAIN),
        ('"outputs": {"url": {"value": "@@", "type": "string", "sensitive": true}}', PLAIN),
        ('{"url":{"sensitive":true,"value":["one-thing","@@"]}}', PLAIN),
        ('{"url":{"sensitive":true,"value":{"user":"al","conf":"@@"}}}', PLAIN),
        ('output "url" {\n  value     = "@@"\n  sensitive = true\n}', PLAIN),
        ('variable "url" {\n  sensitive = true\n  default   = "@@"\n}', PLAIN),
        ('"type": "random_password",\n"attributes": {\n  "result": "@@"\n}', PLAIN),
        ('{"Name": "/app/url", "Type": "SecureString", "Value": "@@"}', PLAIN),
        ('{"key": "url", "value": "@@", "type": "secret"}', PLAIN),
        ('{"name": "URL", "value": "@@", "isSecret": true}', PLAIN),
        ("- name: url\n  secret: true\n  value: @@\n", PLAIN),
    ],
    "files": [
        ("default login al password @@\n", PLAIN),
        ("default\n  login al\n  password @@\n", PLAIN),
        ("machine x.org\n  login al\n  password @@\n", PLAIN),
        ("machine x.org\\nlogin al\\npassword @@\\n", PLAIN),
        ("machine x.org login al account a1 password @@\n", PLAIN),
        ("localhost:5432:shop:al:@@\n", PLAIN),
        ("*:*:*:al:@@\n", WORD),
        ("db.example.com:6543:shop:al:@@\n", WORD),
        ("10.0.0.5:5433:*:al:@@\n", mixed(16)),
        ("root:@@:19000:0:99999:7:::\n", SHA512),
        ("al:@@\n", BCRYPT),
        ("al:@@\n", "$apr1$" + mixed(8, 5) + "$" + mixed(22, 6)),
        ("userPassword: @@\n", "{SSHA}" + encoded(mixed(24))),
        ("INSERT INTO users (id, name, password) VALUES (1, 'al', '@@');", PLAIN),
        ("insert into users(id,password,name) values(1,'@@','al')", PLAIN),
        ('INSERT INTO "users" ("id", "password") VALUES (1, \'x1y2z3\'), (2, \'@@\');', PLAIN),
        ("INSERT INTO `users` (`id`, `api_token`) VALUES\n(1, '@@'),\n(2, NULL);", mixed(20)),
        ("REPLACE INTO users (name, pwd) VALUES ('it''s, al', '@@')", PLAIN),
        (r'"INSERT INTO users (id, password) VALUES (1, \"@@\")"', PLAIN),
        ("COPY public.users (id, password) FROM stdin;\n1\t@@\n\\.\n", PLAIN),
        (" id | password \n----+----------\n  1 | @@\n", PLAIN),
        ("+---+-----+\n| a | pwd |\n+---+-----+\n| 1 | @@ |\n+---+-----+\n", PLAIN),
    ],
    "slots": [
        ("password: &pw @@\nother: *pw\n", "hunter2Zebra"),
        ("db:\n  password: &db_pw @@\n", PLAIN),
        ("password: !!str @@\n", PLAIN),
        ('password: &pw "@@"\n', PLAIN),
        ("api_key: &k !!str '@@'\n", mixed(20)),
        ("SSHPASS=@@ sshpass -e ssh host\n", PLAIN),
        ("export SSHPASS='@@'\n", PLAIN),
        ("DBPASS=@@\n", PLAIN),
        ("requirepass @@\n", PLAIN),
        ("# redis\nrequirepass @@\nport 6379\n", "foobared"),
        ('CONFIG SET requirepass "@@"', PLAIN),
        ("masterauth @@\n", PLAIN),
        ("  auth_pass @@\n", WORD),
        ("bindpw @@\n", WORD),
        ("enable secret 5 @@\n", "$1$" + mixed(4, 5) + "$" + mixed(22, 6)),
        ("https://x.org/a;jsessionid=@@?b=1", upper(32)),
        ("https://x.org/a?PHPSESSID=@@&b=1", hexadecimal(26)),
        ("GET /a?sid=@@ HTTP/1.1", HEX),
        ("https://x.org/?session_id=@@", mixed(32)),
        ("curl -b 'sessionid=@@' https://x.org", mixed(32)),
        ("connect.sid=@@; Path=/", "s%3A" + mixed(32) + "." + mixed(43, 8)),
        ("ASP.NET_SessionId=@@; path=/; HttpOnly", mixed(24)),
        ("JSESSIONID=@@", upper(32)),
        ("the hash is @@ there", SHA512),
        ("'@@'", BCRYPT),
        ("x=@@", "$argon2id$v=19$m=65536,t=3,p=4$" + mixed(22) + "$" + mixed(43)),
        ("x: @@", "pbkdf2_sha256$260000$" + mixed(22) + "$" + mixed(43) + "="),
        ("x: @@", "$y$j9T$" + mixed(22) + "$" + mixed(43)),
        ("x: @@", f"SCRAM-SHA-256$4096:{encoded(mixed(16))}${encoded(mixed(32))}:{encoded(HEX)}"),
        ('DriverManager.getConnection("jdbc:mysql://db/shop", "sa", "@@");', PLAIN),
        ('getConnection(url, "sa", "@@")', PLAIN),
        ('getConnection(\n    "jdbc:h2:mem:x",\n    "sa",\n    "@@")', PLAIN),
        ("client = Client('AC" + HEX + "', '@@')", hexadecimal(32)),
        ('twilio("AC' + HEX + '", "@@")', hexadecimal(32)),
        ("server.login('al@example.org', '@@')", WORD),
        ("auth=('al', '@@')", WORD),
        ("HTTPBasicAuth('al', '@@')", PLAIN),
        ('new NetworkCredential("al", "@@")', PLAIN),
        ("config/master.key contains @@", HEX),
        ("`master.key` contains `@@`.", HEX),
        ("The master key contains @@ now", HEX),
    ],
}  # fmt: skip

KEYS = {
    "concatenated": " + \n".join(f'"{line}\\n"' for line in PEM.split("\n")),
    "joined": ' + "\\n" + '.join(f'"{line}"' for line in PEM.split("\n")),
    "joined in lines": ' + "\\n"\n  + '.join(f'"{line}"' for line in PEM.split("\n")),
    "list": "[" + ", ".join(f"'{line}'" for line in PEM.split("\n")) + "].join('\\n')",
    "list in lines": "[\n" + ",\n".join(f'  "{line}"' for line in PEM.split("\n")) + "\n]",
    "adjacent": "\n".join(f'  "{line}\\n"' for line in PEM.split("\n")),
    "continued": PEM.replace("\n", "\\n\\\n"),
    "dots": " .\n".join(f"'{line}' . \"\\n\"" for line in PEM.split("\n")),
    "ampersands": " & vbLf & _\n".join(f'"{line}"' for line in PEM.split("\n")),
    "append": "\n".join(f'key += "{line}\\n";' for line in PEM.split("\n")),
    "builder": "".join(f'.append("{line}\\n")\n' for line in PEM.split("\n")),
    "entities": PEM.replace("\n", "&#10;"),
    "percent": quote(PEM),
    "coloured": "\n".join(f"\x1b[32m{line}\x1b[0m" for line in PEM.split("\n")),
    "diff": "\n".join(f"+{line}" for line in PEM.split("\n")),
}


def cases() -> list[tuple[str, str, str]]:
    return [(family, *form) for family, forms in FORMS.items() for form in forms]


@pytest.mark.parametrize(("family", "frame", "secret"), cases())
def test_a_secret_in_any_form_is_masked(family: str, frame: str, secret: str):
    text = frame.replace("@@", secret)
    for whole in (text, f"first line\n{text}\nlast line"):
        masked = MASKER.text(whole)
        assert "[masked:" in masked
        assert not secret or secret not in masked
        assert not secret or secret[-11:-1] not in masked.replace(frame.partition("@@")[0], "")
        assert MASKER.text(masked) == masked


def test_there_are_as_many_forms_as_families_need():
    assert len(cases()) + len(KEYS) >= 144


@pytest.mark.parametrize("form", KEYS)
def test_every_line_of_a_private_key_in_code_is_masked(form: str):
    masked = MASKER.text(f"key = {KEYS[form]}; and prose")
    assert not any(line[:9] in masked for line in PEM_BODY)
    assert masked.startswith("key = ")
    assert masked.endswith("and prose")
    assert MASKER.text(masked) == masked


@pytest.mark.parametrize("lead", [0, 150, 263, 500])
@pytest.mark.parametrize(("family", "frame", "secret"), cases())
def test_a_form_in_pieces_is_masked_as_a_whole(family: str, frame: str, secret: str, lead: int):
    text = ("so " * 200)[:lead] + "\n" + frame.replace("@@", secret) + "\nand so on" * 40
    masked = MASKER.text(text)
    for size in (1, 7, 64, 300):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert streamed(MASKER, pieces) == masked, size


def test_an_object_whose_beginning_was_shown_long_ago_is_masked():
    notes = ", ".join(f'"note{n}": "nothing to say here"' for n in range(30))
    text = f'{{{notes}, "kind": "Secret", "data": {{"conf": "{CODE}"}}}} and so on' + " words" * 60
    masked = MASKER.text(text)
    assert CODE not in masked
    for size in (1, 64, 300):
        assert streamed(MASKER, [text[n : n + size] for n in range(0, len(text), size)]) == masked


def test_two_objects_are_masked_in_any_order():
    one = 'output "url" {\n  value     = "wonderland"\n  sensitive = true\n}\n'
    other = f"kind: Secret\ndata:\n  conf: {CODE}\n"
    for text in (one + other, other + "---\n" + one):
        masked = MASKER.text(text)
        assert PLAIN not in masked and CODE not in masked


def test_of_a_secret_object_only_what_its_members_hold_is_masked():
    login = {"username": "YWRtaW4tdXNlcg", "password": CODE}
    secret = {"kind": "Secret", "data": login, "metadata": {"name": "shop-login"}}
    output = {"sensitive": True, "value": PLAIN, "type": "string", "description": "Of the shop"}
    masked = json.loads(MASKER.text(json.dumps([secret, {"db": output}])))
    login = dict.fromkeys(login, "[masked:secret]")
    assert masked == [{**secret, "data": login}, {"db": {**output, "value": "[masked:secret]"}}]


def test_of_a_list_of_objects_in_yaml_only_the_secret_ones_are_masked():
    plain = "- kind: ConfigMap\n  data:\n    mode: production\n"
    secret = f"- kind: Secret\n  data:\n    conf: {CODE}\n"
    for text in (
        plain + secret,
        secret + plain,
        f"{secret}other:\n  data:\n    mode: production\n",
    ):
        assert MASKER.text(text) == text.replace(CODE, "[masked:secret]")


# Tokens that touch something

VENDORS = {
    **{prefix: prefix + mixed(40) for prefix in sorted(tokens._PREFIXES)},
    "aws": dashed("AK", "IA", upper(16)),
    "google": dashed("AI", "za", mixed(35)),
    "atlassian": dashed("ATA", "TT3", mixed(60)),
    "alibaba": dashed("LT", "AI", mixed(20)),
    "telegram": dashed("123456789", ":AA", mixed(33)),
    "mailgun": dashed("key", "-", hexadecimal(32)),
    "mailchimp": dashed(hexadecimal(32), "-us", "12"),
    "terraform": dashed(mixed(14), ".atlas", "v1.", mixed(60)),
    "azure": dashed(mixed(3), "8Q", "~", mixed(34)),
    "twilio": dashed("S", "K", hexadecimal(32)),
    "databricks": dashed("da", "pi", hexadecimal(32)),
    "jwt": JWT,
}
BEFORE = ["", "\x1b[32m", "\x1b[38;5;9m", "a", "Z", "7", "_", "/", "-", ".", '"', "token_",
          "x=", "(", ":", "@", "日", "%20", "\\n", "\\u001b[1m", "~", "&lt;",
          "\u200b"]  # fmt: skip
AFTER = ["", "\x1b[0m", "\x1b[0mword", ".txt", "_x", "/", '"', " ", "\\n", "&", "日", ")", ":", ",",
         "-", "...", "@h", "\u200b"]  # fmt: skip


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_token_is_masked_whatever_it_touches(vendor: str):
    token = VENDORS[vendor]
    body = token[len(vendor) if vendor in tokens._PREFIXES else 6 :][:16]
    shown = [
        (before, after)
        for before in BEFORE
        for after in AFTER
        if body in MASKER.text(before + token + after)
    ]
    assert shown == []


@pytest.mark.parametrize("place", ["{}.txt", "token_{}.txt", "/tmp/x{}/y", "--header={}", "a{}b"])
def test_a_token_in_a_name_or_an_argument_is_masked(place: str):
    masked, changed = MASKER.value({"args": [place.format(TOKEN)], place.format(TOKEN): 1})
    assert TOKEN[:12] not in json.dumps(masked)
    assert len(changed) == 2


def test_colours_around_and_inside_a_secret_stay_sensible():
    assert MASKER.text(f"{RED}{TOKEN}{RESET} ok") == f"{RED}[masked:token]{RESET} ok"
    assert MASKER.text(f"{RED}ghp_{RESET}{TOKEN[4:]} ok") == f"{RED}[masked:token]{RESET} ok"
    assert (
        MASKER.text(f"password: {RED}{WORD}{RESET}\n") == f"password: {RED}[masked:secret]{RESET}\n"
    )


def test_only_what_is_secret_in_base64_is_masked():
    code = encoded("A first line that everybody may read, and one more.\n" * 3 + ENV)
    masked = MASKER.text(f"echo {code} | base64 -d > .env")
    assert masked.startswith(f"echo {code[:128]}")
    assert masked.endswith("[masked:secret] | base64 -d > .env")


@pytest.mark.parametrize("after", ["", "REGION=eu-central-1\nMODE=production\n"])
def test_base64_in_lines_is_masked_where_its_secret_is_in_another_line_than_its_name(after: str):
    env = f"HOST=db.example.com\nPORT=5432\nUSER_NAME=shop\nDB_PASSWORD={PLAIN}\n{after}"
    code = b64encode(env.encode()).decode()
    lines = [code[:76], code[76:]]
    assert MASKER.text("\n".join(lines)) == f"{lines[0]}\n[masked:secret]"


def test_a_sequence_that_is_written_out_is_one_at_any_depth_of_escaping():
    text = rf"\e[32mpassword: {PLAIN}\e[0m"
    for _ in range(3):
        assert MASKER.text(text) == text.replace(PLAIN, "[masked:secret]")
        text = json.dumps(text)[1:-1]


def test_an_encoding_inside_a_terminal_s_sequence_is_part_of_that():
    text = f"\x1b]0;this &amp; that\x07DB_PASSWORD={PLAIN}\x1b[0m\n"
    assert MASKER.text(text) == text.replace(PLAIN, "[masked:secret]")


HARMLESS = [
    "192.168.1.10:5432:open:postgres:idle",
    "10.0.0.7:5432:listening:postgres:active",
    "src/app.py:5432:12:error:undefined",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "  id: 123e4567-e89b-12d3-a456-426614174000",
    "session_id=123e4567-e89b-12d3-a456-426614174000 started",
    '"integrity": "sha512-' + b64encode(bytes(range(64))).decode() + '"',
    "data:image/png;base64," + b64encode(bytes(range(256)) * 3).decode(),
    "data:text/html;base64," + encoded("<html><body>Hello, everybody out there!</body></html>"),
    "sourceMappingURL=data:application/json;base64," + encoded('{"version":3,"sources":["a.ts"]}'),
    encoded("A text that has nothing to hide, only words about the weather.\n" * 4, 76),
    "password: string",
    "password: String;",
    "password = getpass()",
    "password = getpass.getpass('Password: ')",
    "The password contains letters and digits.",
    "The token contains the user's name.",
    "master.key contains the key for credentials",
    "other: *pw",
    "password: *pw",
    "password: !vault |",
    "password: !Ref DbPassword",
    "password: !Sub '${DbPassword}'",
    "&nbsp;&nbsp;&lt;b&gt;password&lt;/b&gt;&nbsp;",
    "Tom &amp; Jerry &copy; 2024 &mdash; password policy",
    "https://example.com/search?q=caf%C3%A9%20au%20lait&lang=fr",
    "https://example.com/a?sid=42&session=open",
    r"C:\examples\new\test\x64\password.txt",
    r"print(f'\033[1mpassword\033[0m')",
    "\x1b[1mpassword\x1b[0m is required",
    "\x1b[32m✓\x1b[0m 3 tests passed",
    "task-550e8400-e29b-41d4-a716-446655440000 is done",
    "disk-0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    "client_secret_1234567890-abc123def456.apps.googleusercontent.com.json",
    "INSERT INTO users (id, name) VALUES (1, 'wonderland');",
    "INSERT INTO users (id, password) VALUES (?, ?)",
    "INSERT INTO users (id, password) VALUES (1, NULL), (2, :password)",
    "kind: ConfigMap\ndata:\n  url: https://example.com\n",
    "kind: Secret\nmetadata:\n  name: database\n",
    'apiVersion: v1\nkind: Secret\ndata:\n  conf: "${CONF}"\n',
    '{"sensitive": false, "type": "string", "value": "wonderland"}',
    '{"case_sensitive": true, "value": "wonderland"}',
    'variable "url" {\n  sensitive = true\n}',
    "case_sensitive = True\ndefault = Mode.HIGH\n",
    "login('al', password)",
    "self.client.login(username, password)",
    "HTTPBasicAuth('user', 'pass')",
    "getConnection(url, user, password)",
    'getConnection("jdbc:h2:mem:x", "sa", "")',
    "npm ERR! 404 '@scope/pkg@1.0.0' is not in this registry",
    'resolution = {integrity: sha512-' + b64encode(bytes(range(60, 124))).decode() + "}",
    "echo $PATH$HOME$1$2 ${A}$B",
    "^[a-z]+$ and ^[[:alpha:]]$ are patterns",
    "pass the salt; compass north; bypass 12ab34cd",
    "bypass enabled\nrequirepass\n",
    "!function(e,t){e.password=t.password,e.token=t}(a,b);var n=\"key\",r='auth';",
    "login failed for user al; password incorrect",
    "default login shell is bash",
    "*:*:*",
    "the costs are $5$ and $6$",
    '"minipass": "^7.0.4", "fs-minipass": "^3.0.0"',
    "GIT_ASKPASS: 'echo',",
    'userpass += f":{password}"',
    "2001:db8:*:*:*:*:*:*",
    "# Return with login / password\n        login_i = 0 if _netrc[0] else 1",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_whole(text: str):
    assert len(HARMLESS) >= 42
    assert MASKER.text(text) == text
    assert MASKER.text(f"before\n{text}\nafter") == f"before\n{text}\nafter"

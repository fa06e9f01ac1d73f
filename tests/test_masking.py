"""Nothing secret survives the sanitiser, and nothing else is touched."""

import json
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from conftest import unmeasured_environment
from outrider import masking
from outrider.masking import Masker, is_secret_name, secret_environment_values, without_secrets

MASKER = Masker(project="/home/alice/project", home="/home/alice")
ROOTS_HOME = "/root"
ONLY_SECRETS = Masker(project="/home/alice/project", home="/home/alice", only_secrets=True)


def mixed(length: int, seed: int = 7) -> str:
    """Return letters and digits that look random and are the same in every run."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    state, out = seed, ["a1B"]
    while len("".join(out)) < length:
        state = (state * 1103515245 + 12345) % 2**31
        out.append(letters[(state >> 8) % len(letters)])
    return "".join(out)[:length]


def words(text: str) -> list[str]:
    return text.split()


def hexadecimal(length: int) -> str:
    return "".join("0123456789abcdef"[(i * 7 + i // 3) % 16] for i in range(length))


def upper(length: int) -> str:
    return "Q7" + mixed(length).upper()[2:]


def dashed(*parts: str) -> str:
    """Join the pieces of a token; no whole one stands in this file."""
    return "".join(parts)


A36 = mixed(36)
JWT = ".".join(
    b64encode(part.encode()).decode().rstrip("=")
    for part in ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"J"}', mixed(32))
)
PEM_BODY = [mixed(64, seed) for seed in range(5)] + ["Zm9v" * 3 + "Qw=="]
PEM = "\n".join(
    ["-----BEGIN RSA PRIVATE " + "KEY-----", *PEM_BODY, "-----END RSA PRIVATE KEY-----"]
)

LETTERS_24 = "".join(c for c in mixed(60, 5) if c.isalpha())[:24]
PUTTY = """PuTTY-User-Key-File-3: ssh-rsa
Encryption: none
Comment: al
Public-Lines: 1
AAAAB3NzaC1yc2EAAAADAQABAAABAQC7
Private-Lines: 6
PRIVATE
Private-MAC: 0123
"""

# (what it is, the text it stands in with {} for the secret, the secret)
SECRETS: list[tuple[str, str, str]] = [
    ("openai", "key {} here", dashed("sk", "-", mixed(48))),
    ("openai letters", "key {} here", dashed("sk", "-", "abcdefghijklmnopqrstuvwx")),
    ("openai project", "{}", dashed("sk", "-proj-", mixed(24), "_", mixed(20))),
    ("openai service", "({})", dashed("sk", "-svcacct-", mixed(40))),
    ("anthropic", "x={}", dashed("sk", "-ant-api03-", mixed(80), "-AA")),
    ("openrouter", "{}", dashed("sk", "-or-v1-", hexadecimal(64))),
    ("github classic", "clone with {} now", dashed("ghp", "_", A36)),
    ("github oauth", "{}", dashed("gho", "_", A36)),
    ("github user", "{}", dashed("ghu", "_", A36)),
    ("github server", "{}", dashed("ghs", "_", A36)),
    ("github refresh", "{}", dashed("ghr", "_", A36)),
    ("github fine", "{}", dashed("github", "_pat_", mixed(22), "_", mixed(59))),
    ("gitlab", "PRIVATE {}", dashed("glpat", "-", mixed(20))),
    ("gitlab deploy", "{}", dashed("gldt", "-", mixed(20))),
    ("gitlab runner", "{}", dashed("glrt", "-", mixed(20))),
    ("npm", "//npm.example.org/ {}", dashed("npm", "_", A36)),
    ("pypi", "{}", dashed("pypi", "-AgEIcHlwaS5vcmc", mixed(60))),
    ("slack bot", "{}", dashed("xox", "b-123456789012-", mixed(24))),
    ("slack user", "{}", dashed("xox", "p-123456789012-", mixed(24))),
    ("slack app", "{}", dashed("xapp", "-1-A0123-", mixed(40))),
    ("slack hook", "https://hooks.slack.com/services/{}", f"T{upper(8)}/B{upper(8)}/{mixed(24)}"),
    ("discord hook", "https://discord.com/api/webhooks/{}", "1234567890/" + mixed(60)),
    ("stripe live", "{}", dashed("sk", "_live_", mixed(24))),
    ("stripe restricted", "{}", dashed("rk", "_live_", mixed(24))),
    ("stripe hook", "{}", dashed("whsec", "_", mixed(32))),
    ("google key", "{}", dashed("AI", "za", mixed(35))),
    ("google token", "{}", dashed("ya", "29.", mixed(60))),
    ("google client", "{}", dashed("GOC", "SPX-", mixed(28))),
    ("google refresh", "{}", dashed("1/", "/0", mixed(50))),
    ("aws id", "key {} found", dashed("AK", "IA", upper(16))),
    ("aws session id", "{}", dashed("AS", "IA", upper(16))),
    ("aws secret beside id", dashed("AK", "IA", upper(16)) + ",{}", mixed(20) + "/" + mixed(19, 3)),
    ("aws secret", "aws_secret_access_key = {}", mixed(20) + "/" + mixed(19, 3)),
    ("azure account", "AccountName=x;AccountKey={};EndpointSuffix=y", mixed(80) + "+/=="),
    ("azure bus", "Endpoint=sb://x/;SharedAccessKeyName=k;SharedAccessKey={}", mixed(43) + "="),
    ("azure sas", "https://x.blob.core.windows.net/c?sv=2022&sig={}&se=1", mixed(40) + "%3D"),
    ("azure client", "{}", dashed(mixed(3), "8Q", "~", mixed(34))),
    ("twilio", "{}", dashed("S", "K", hexadecimal(32))),
    ("twilio auth", "TWILIO_AUTH_TOKEN={}", hexadecimal(32)),
    ("sendgrid", "{}", dashed("S", "G.", mixed(22), ".", mixed(43))),
    ("hugging face", "{}", dashed("hf", "_", mixed(34))),
    ("groq", "{}", dashed("gsk", "_", mixed(52))),
    ("xai", "{}", dashed("xai", "-", mixed(80))),
    ("digitalocean", "{}", dashed("dop", "_v1_", hexadecimal(64))),
    ("databricks", "{}", dashed("da", "pi", hexadecimal(32))),
    ("docker hub", "{}", dashed("dckr", "_pat_", mixed(27))),
    ("vault", "{}", dashed("hv", "s.", mixed(24))),
    ("age", "{}", dashed("AGE-SECRET", "-KEY-1", upper(58))),
    ("telegram", "bot {} up", dashed("123456789", ":AA", mixed(33))),
    ("discord", "{}", dashed("M", mixed(23), ".", mixed(6), ".", mixed(38))),
    ("shopify", "{}", dashed("shp", "at_", hexadecimal(32))),
    ("linear", "{}", dashed("lin", "_api_", mixed(40))),
    ("notion old", "{}", dashed("secret", "_", mixed(43))),
    ("notion", "{}", dashed("ntn", "_", mixed(46))),
    ("cloudflare", "CLOUDFLARE_API_TOKEN={}", mixed(40)),
    ("heroku", "HEROKU_API_KEY={}", "01234567-89ab-cdef-0123-456789abcdef"),
    ("mailgun", "{}", dashed("key", "-", hexadecimal(32))),
    ("mailchimp", "{}", dashed(hexadecimal(32), "-us", "12")),
    ("grafana", "{}", dashed("glsa", "_", mixed(32), "_", hexadecimal(8))),
    ("supabase", "{}", dashed("sbp", "_", hexadecimal(40))),
    ("atlassian", "{}", dashed("ATA", "TT3", mixed(60))),
    ("terraform", "{}", dashed(mixed(14), ".atlas", "v1.", mixed(60))),
    ("jwt", "jwt {}", JWT),
    ("jwt without signature", "{}", JWT.rsplit(".", 1)[0]),
    ("pem", "{}\nafter", PEM),
    ("pgp", "{}\n", PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK")),
    ("basic", "Authorization: Basic {}", b64encode(b"alice:wonderland").decode()),
    ("bearer", "Authorization: Bearer {}", "x"),
    ("bearer in curl", "curl -H 'Authorization: Bearer {}' https://x", mixed(20)),
    ("bare bearer", "sent Bearer {}", mixed(30)),
    ("bare basic", "sent Basic {}", b64encode(b"alice:wonderland").decode()),
    ("token scheme", "Authorization: token {}", mixed(20)),
    ("unknown scheme", "Authorization: Zebra {}", mixed(20)),
    ("raw authorization", "Authorization: {}", mixed(20)),
    ("raw authorization in a log", "Authorization: {} status=200", mixed(20)),
    ("digest", "Authorization: Digest {}", f'username="al", response="{hexadecimal(32)}"'),
    ("aws", "Authorization: AWS4-HMAC-SHA256 {}", f"Credential=x, Signature={hexadecimal(64)}"),
    ("proxy", "Proxy-Authorization: Basic {}", b64encode(b"alice:wonderland").decode()),
    ("python header", 'headers["Authorization"] = "Bearer {}"', mixed(20)),
    ("header call", 'setRequestHeader("Authorization", "Bearer {}")', mixed(20)),
    ("api key header", "curl -H 'X-Api-Key: {}'", mixed(20)),
    ("cookie", "Cookie: {}", "sessionid=" + mixed(32) + "; csrftoken=" + mixed(20)),
    ("set-cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", mixed(32)),
    ("env line", "DB_PASSWORD={}", "hunter2secret"),
    ("env letters", "export ADMIN_PASSWORD={}\n", "wonderland"),
    ("env symbols", "DB_PASSWORD={}\n", "p&ss(w0rd)!x"),
    ("env in docker", "docker run -e API_TOKEN={} image", mixed(12)),
    ("yaml", "password: {}\n", "hunter2"),
    ("ini", "password = {}\n", "hunter2"),
    ("python", 'password = "{}"', "hunter"),
    ("annotated", 'password: str = "{}"', "hunter2"),
    ("keyword argument", 'connect(user="al", password="{}")', "wonderland"),
    ("javascript", "const clientSecret = '{}';", "wonderland"),
    ("go", 'apiKey := "{}"', "wonderland"),
    ("php", "'password' => '{}',", "wonderland"),
    ("json", '{{"client_secret": "{}"}}', "wonderland"),
    ("xml", "<password>{}</password>", "wonderland"),
    ("kubernetes", "- name: DB_PASSWORD\n  value: {}\n", "hunter2x"),
    ("name and value", '{{"name": "DB_PASSWORD", "value": "{}"}}', "hunter2x"),
    ("flag", "mysql --password {} db", "hunter2xyz"),
    ("flag with equals", "tool --token={} run", mixed(12)),
    ("curl user", "curl -u alice:{} https://x", "wonderland"),
    ("curl long user", "curl --user 'alice:{}' https://x", "wonderland"),
    ("url", "postgres://user:{}@host/db", "pa%20ss"),
    ("url", "redis://:{}@host", "secret2024"),
    ("word like a placeholder", "DB_PASSWORD={}\n", "themis2024"),
    ("url without user", "redis://:{}@host", "pw"),
    ("url with at", "https://al:{}@host/x", "p@ss"),
    ("url with slash", "amqp://al:{}@host/x", "pa/ss"),
    ("url token", "https://{}@github.com/x/y", mixed(40)),
    ("url query", "GET /x?access_token={}&y=1", "wonderland"),
    ("connection string", "Server=x;Uid=al;Pwd={};", "wonderland"),
    ("netrc", "machine x login al password {}\n", "wonderland"),
    ("sql", "CREATE USER al IDENTIFIED BY '{}'", "wonderland"),
    ("npmrc", "//npm.example.org/:_authToken={}", mixed(36)),
    ("passphrase", 'passphrase = "{}"', "correct horse battery staple"),
    ("yaml word", "db:\n  client_secret: {}\n", "wonderland"),
    ("prose", "The password is {}, he said.", "hunter2"),
    ("numbered password", "password: {}\n", "19283746"),
    ("docker config", '"auth": "{}"', b64encode(b"alice:wonderland1").decode()),
    ("f-string", "password = f'{}'", "hunter2x"),
    ("rust", 'let api_key: &str = "{}";', "wonderland"),
    ("rust constant", "const API_KEY: &'static str = \"{}\";", "wonderland"),
    ("setter", 'source.setPassword("{}");', "hunter2Zebra9"),
    ("sql role", "ALTER ROLE alice PASSWORD '{}';", "wonderland"),
    ("powershell", '$p = ConvertTo-SecureString "{}" -AsPlainText -Force', "wonderland"),
    ("yaml block", "password: |\n  {}\nnext: 1", "hunter2Zebra9"),
    ("yaml below", "password:\n  {}\n", "hunter2Zebra9"),
    ("dockerfile", "ENV DB_PASSWORD {}\n", "wonderland"),
    ("fish", "set -gx API_TOKEN {}\n", mixed(20)),
    ("windows", "setx API_TOKEN {}", mixed(20)),
    ("sshpass", "sshpass -p {} ssh host", "wonderland"),
    ("mysql", "mysql -u root -p{} shop", "wonderland"),
    ("docker login", "docker login -u alice -p {} registry.example", "wonderland"),
    ("redis", "redis-cli -h cache -a {} ping", "wonderland"),
    ("redis of mysql", "redis-cli -p 6379 -h mysql -a {} ping", "wonderland"),
    ("docker login of mysql", "docker login -u mysql -p {} registry.example/mysql", "wonderland"),
    ("mysql behind a port", "mysql -P 3306 -u root -p{} shop", "wonderland"),
    ("sshpass before mysql", "sshpass -p $PASS ssh host mysql -p{}", "wonderland"),
    ("terraform variable", 'variable "db_password" {{\n  default = "{}"\n}}', "wonderland"),
    ("encoded form", "next=login%3Fpassword%3D{}", "hunter2x"),
    ("markdown", "**Password:** `{}`", "wonderland"),
    ("token like a class", "access_token: {}\n", "Nmo" + "".join(reversed(mixed(20)))),
    ("letters after a token", "access_token: {}\n", LETTERS_24),
    ("letters after a password", "password: {}\n", LETTERS_24),
    ("words joined", "password: {}\n", "copper-window-lantern"),
    ("api key of two words", "API key: {}\n", mixed(32)),
    ("api key in prose", "The API key is {} as of today.", mixed(32)),
    ("secret key of two words", "Secret key: {}\n", mixed(32)),
    ("api key in bold", "**API key:** `{}`", "wonderland"),
    ("api key and bold colon", "**API key**: {}\n", mixed(32)),
    ("key with a colon", '{{"Jwt:Key": "{}"}}', "wonderland"),
    ("password with a colon", '{{"Smtp:Password": "{}"}}', "wonderland"),
    ("dotted key", "api.key={}\n", mixed(32)),
    ("triple quotes", 'password = """{}"""', "wonderland"),
    ("triple quotes below", "API_KEY = \'\'\'\n{}\n\'\'\'\n", "wonderland"),
    ("markdown table", "| User | Password |\n|---|---|\n| al | {} |\n", "wonderland"),
    ("markdown table of keys", "Name | API key\n--- | ---\nal | `{}`\n", mixed(32)),
    ("csv", "name,password,role\nal,{},admin\n", "wonderland"),
    ("csv in quotes", '"user","api_key"\n"al","{}"\n', mixed(32)),
    ("tsv", "name\ttoken\nal\t{}\n", mixed(32)),
    ("pgpass", "db.example.com:5432:shop:al:{}\n", "wonderland"),
    ("kubeconfig", "    client-key-data: {}\n", mixed(80) + "=="),
    ("oracle", "jdbc:oracle:thin:al/{}@db:1521:orcl", "wonderland"),
    ("sqlplus", "sqlplus -s al/{}@orcl", "wonderland"),
    ("wifi", "psk={}\n", "wonder" + mixed(12)),
    ("signature with tildes", "https://x/y?Expires=1&Signature={}&Key-Id=K", mixed(30) + "~" + A36),
    ("password changed", "The password was changed to `{}` today.", "wonderland"),
    ("password set", "I set the password to {} now.", mixed(16)),
    ("htpasswd", "htpasswd -b .htpasswd al {}", "wonderland"),
    ("htpasswd without a file", "htpasswd -nbB al {} > users", "wonderland"),
    ("net use", "net use Z: \\\\host\\share {} /user:al", "wonderland"),
    ("html", '<input type="password" name="pw" value="{}">', "wonderland"),
    ("html the other way", '<input value="{}" type="password"/>', "wonderland"),
    ("setx in quotes", 'setx DB_PASSWORD "{}"', "wonderland"),
    ("terraform state", '"type": "random_password",\n"x": {{"result": "{}"}}', "wonderland"),
    ("putty", PUTTY.replace("PRIVATE", "{}"), "\n".join(PEM_BODY)),
]  # fmt: skip

ROOT = "/" + "root"  # a folder of every system, and also what sites call a page

ORDINARY: list[str] = [
    "find /etc -name mysql.cnf -print0",
    "sshpass -p $PASS ssh -p 2222 root@host",
    "tar xf mysql-8.tar.gz -pxvfz",
    "unset -x API_KEY abcd1234efgh5678",
    "The token budget is 4000 tokens, of which 12 are left.",
    "password: see the wiki",
    "Passwords are never printed (see foo.ts).",
    "Authorization: Bearer tokens are checked in the gateway.",
    "Authorization: required",
    "Basic authentication and bearer tokens are both supported.",
    "The key: never give up. A secret: practice.",
    "Set the API key: it is in the settings.",
    "Your password must have 8 characters.",
    "His secret is safe; her token of thanks = flowers.",
    "authors: Jane Doe, John Smith",
    "password = get_password()",
    "password = input('Password: ')",
    "token: str",
    "token: str | None = None",
    "api_key: string;",
    "api_key=os.environ['OPENAI_API_KEY']",
    'api_key=os.environ["X"]',
    "const token = process.env.GITHUB_TOKEN",
    "if password == other:",
    "secret = None",
    "self.token = token",
    "self._password = password",
    "client = Client(api_key=api_key, token=token)",
    "client = Client(token=settings.api_token)",
    "password: ${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "password: <your-password>",
    "PASSWORD=$PASSWORD",
    "API_KEY=${API_KEY:-}",
    "export TOKEN=$(cat token.txt)",
    "API_KEY=your-api-key",
    "OPENAI_API_KEY=...",
    "TOKEN=<token>",
    "<your-password>",
    '"password": {"type": "string"}',
    '{"type": "password", "name": "field"}',
    '"password": "string"',
    '"password": "Enter your password"',
    '"required": ["username", "password", "token"]',
    '"max_tokens": 4096, "total_tokens": 123',
    '"inputTokens": 17, "outputTokens": 12',
    '"next_page_token": "CAUQAA12345"',
    '"key": "value1234", "sort_key": "abc123def"',
    '"public_key": "abc123def456"',
    '"token_type": "bearer"',
    'token = "NUMBER"',
    "tokens = text.split()",
    "token = tokens[0]",
    "secret_name = 'db-credentials-2'",
    "password_hash = hash_password(password)",
    "def check(password: str, token: int64) -> bool:",
    "fetch(url, { credentials: 'same-origin' })",
    "credentials: include",
    "private_key: /etc/ssl/private/server.pem",
    "key_file = ~/.ssh/id_rsa",
    "headers = {'Authorization': f'Bearer {token}'}",
    'headers["Authorization"] = "Bearer " + token',
    "-H 'Authorization: Bearer $TOKEN'",
    "-H 'Authorization: Bearer <token>'",
    "WWW-Authenticate: Basic realm=\"site\"",
    "--token TOKEN  the token to use",
    "usage: tool [--password PASSWORD] [--api-key KEY]",
    "docker run -u 1000:1000 image",
    "cookie: Cookie = Cookie()",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    '"integrity": "sha512-' + b64encode(bytes(range(64))).decode() + '"',
    "id 123e4567-e89b-12d3-a456-426614174000 done",
    "data:image/png;base64," + b64encode(bytes(range(256)) * 3).decode(),
    "//# sourceMappingURL=data:application/json;base64,eyJ2ZXJzaW9uIjozfQ.x.y",
    "src/outrider/protocol/masking.py:12",
    "/usr/lib/python3.11/site-packages/x.py and ./home/me/x",
    "https://example.com/home/alice/page?x=1",
    "https://example.com:8080/path/@scope/pkg",
    "ssh://git@github.com/x/y.git and git@github.com:x/y.git",
    "docker://alpine:3.18@sha256:abcdef0123456789",
    'f"postgres://{user}:{password}@{host}/db"',
    "postgres://user@host/db",
    "http://localhost:3000/?a=b@c",
    "npm_config_registry=https://npm.example.org/",
    "sk-learn is short for scikit-learn; task-oriented, risk-averse-behaviour-in-2020",
    "class sk-folding-cube sk-cube1",
    "ghp_ is the prefix of a token",
    "the prefixes AKIA and ASIA name keys",
    '"-----BEGIN PRIVATE KEY-----" in text',
    "-----BEGIN CERTIFICATE-----\nMIIBszCCARygAwIBAgIJAL\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIBszCCARygAwIBAgIJAL\n-----END PUBLIC KEY-----",
    "call_0123456789abcdef01234567",
    "toolu_01A09q90qw90lq917835lq9",
    "msg_01XFDUDYJgAABzvnptvVoYEL",
    "SGVsbG8gd29ybGQhIFRoaXMgaXMgdGV4dA==",
    "camelCaseIdentifierThatIsQuiteLongIndeed = anotherLongIdentifierName()",
    "use_underscores_in_names_that_are_rather_long_and_have_1_digit",
    "x = a if b else c  # password rules apply",
    "パスワードは表示されません。 token: str",
    "2024-01-02T03:04:05.678Z INFO keyboard: layout=us",
    "monkey=1 turkey: 2 donkey = three",
    "assert token is not None, 'token missing'",
    "keyPath = 'a.b.c'",
    '__all__ = ["IdentityCredentials", "Identity2Error"]',
    'MovedAttribute("HTTPPasswordMgr", "urllib2", "urllib.request")',
    '("authorization", "x-amz-content-sha256", "x-amz-date")',
    "identified by `required_input` or by \"code\"",
    '{"keep_old_secret_active_for_24_hours": keep_old_secret_active_for_24_hours}',
    'password = ":****"',
    "proxy_url = 'socks5h://<username>:<password>@proxy-host'",
    "exports.SOCKS5_NO_ACCEPTABLE_AUTH = SOCKS5_NO_ACCEPTABLE_AUTH;",
    "authorization = authorization[1].encode('ascii')",
    'headers["authorization"] = "GoogleLogin Auth=" + self.Auth',
    "password_encryption = scram-sha-256",
    "@GNUTLS_BAG_SECRET: PKCS-12 bag",
    'Token: "#ddd0c0",',
    "The password is required; the token is valid, the secret was rotated.",
    "password: required\n",
    "const user = { password: hashed, apiKey: key }",
    "[masked:token] and password = \"[masked:secret]\"",
    'check_password("alice") and getToken("refresh")',
    "mysql -u root -p shop; mysql -P 3306 -h db",
    "docker run -p 8080:80 image",
    "password:\n  type: string\n",
    "if token:\n    self.step2()\n",
    "ENV PATH /usr/local/bin\nENV MAX_TOKENS 4096\n",
    "set -x PATH /opt/bin $PATH",
    'variable "db_password" {\n  type = string\n}',
    "get_secret | python3 -",
    "kind: Secret\nmetadata:\n  name: database\n",
    "-----END PRIVATE KEY----- ends a key",
    f"The routes /home/dashboard, /home/orders/new and {ROOT}/index need a login.",
    "GET /home/orders 200",
    '<a href="/home/reports">',
    "api_key: AzureApiKeyProvider | None",
    "token: NotificationChannelTokenPreview",
    "| Token | Meaning |\n|---|---|\n| identifier | a name |\n| NUMBER | digits |\n",
    "| Secret | Needed by |\n|---|---|\n| npm-publish | the release |\n",
    "user,password\n",
    "name, password, role\nlength, strength, reset\n",
    "pass the token to `login`, and the password to `connect`",
    "ID to pass to `GET /v1/alerts`",
    'password = """Enter it twice."""',
    "htpasswd -b FILE USER PASSWORD",
    "net use Z: \\\\host\\share *",
    'type = "password"\nname = "pw"\nvalue = "x"',
    '<input type="password" name="pw" value="{{ form.password }}">',
    "The private key is on the server; the access key: see below.",
    "cache.key = compute(item); the sort key is name",
]  # fmt: skip


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


def test_a_password_before_the_last_word_of_a_name_is_a_hint():
    value = {"db_password_host": A36, "password_rules": "eight letters", "secret_id": "mail-2"}
    masked, changed = MASKER.value(value)
    assert masked == {**value, "db_password_host": "[masked:secret]"}
    assert changed == ["$.db_password_host"]
    assert MASKER.text(f"DB_PASSWORD_HOST={A36}") == "DB_PASSWORD_HOST=[masked:secret]"
    env = {"DB_PASSWORD_HOST": A36, "SECRET_STORE": "keychain", "LANG": "C"}
    assert secret_environment_values(env) == (A36,)
    assert without_secrets(env) == {"LANG": "C"}


def test_a_word_that_only_tells_a_password_apart_is_passed_over():
    for line in (
        "DB_PASSWORD_REPLICA={}",
        '"password_confirmation"=>"{}"',
        "ADMIN_PASSWORD_NEW={}",
    ):
        assert MASKER.text(line.format("hunter22!")) == line.format("[masked:secret]")
    assert secret_environment_values({"DB_PASSWORD_REPLICA": "correcthorse"}) == ("correcthorse",)
    assert without_secrets({"API_KEYS": "key1-a83,key2-b94", "PAGER": "less"}) == {"PAGER": "less"}


def test_a_token_of_a_lexer_stays_and_a_random_one_does_not():
    assert MASKER.text("current_token = lexer.next()") == "current_token = lexer.next()"
    assert MASKER.text(f"CURRENT_TOKEN={A36}") == "CURRENT_TOKEN=[masked:secret]"
    assert MASKER.value({"outputToken": A36})[0] == {"outputToken": "[masked:secret]"}


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


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DB_PASSWORD",
        "dbPassword",
        "passwd",
        "user_pwd",
        "passphrase",
        "secret",
        "client_secret",
        "clientSecret",
        "api_key",
        "apiKey",
        "X-Api-Key",
        "apikey",
        "APIKey",
        "OPENAI_API_KEY",
        "access_token",
        "accessToken",
        "authToken",
        "private_key",
        "aws_secret_access_key",
        "SECRET_KEY_BASE",
        "AccountKey",
        "STRIPE_LIVE_KEY",
        "current_credentials",
        "next_auth",
    ],
)
def test_a_secret_name_is_recognised(name: str):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "key",
        "name",
        "token_count",
        "max_tokens",
        "tokens",
        "tokenizer",
        "public_key",
        "primary_key",
        "cache_key",
        "monkey",
        "author",
        "authority",
        "password_length",
        "token_type",
        "secret_name",
        "key_id",
        "next_page_token",
        "max_token",
        "colorToken",
        "current_token",
        "output_token",
        "OAuth",
        "keyboard",
        "token_url",
        "passwordField",
        "description",
    ],
)
def test_a_harmless_name_is_not_taken_for_a_secret(name: str):
    assert not is_secret_name(name)


def test_a_harmless_environment_value_is_not_a_secret():
    env = {
        "GITHUB_TOKEN": "abcdefgh1234",
        "MY_KEY": "k" * 30,
        "DB_PASSWORD": "wonderland",
        "DATABASE_URL": "postgres://u:urlpassword@h/d",
        "SHORT_KEY": "abc",
        "SSH_AUTH_SOCK": "/run/user/1000/keyring/ssh",
        "USE_AUTH": "true",
        "AUTH_METHOD": "certificate",
        "KEY_COUNT": "1234567890",
        "AUTH_URL": "https://auth.example.com/x",
        "PWD": "/home/alice/secret-project",
        "USER": "alice-the-user",
        "AUTH_USER_TOKEN": "alice-the-user",
        "PATH": "/usr/bin:/bin",
        "LANG": "en_US.UTF-8",
    }
    assert secret_environment_values(env) == ("k" * 30, "abcdefgh1234", "urlpassword", "wonderland")


# Streams


def streamed(masker: Masker, pieces: list[str]) -> str:
    stream = masker.stream()
    return "".join([stream.feed(piece) for piece in pieces] + [stream.finish()])


FILLER = st.sampled_from(
    ["word ", "more text, ", "\n", '", "', "x" * 40, " = ", "日本 ", "\\n", "{", "}"]
)
PIECES = st.lists(
    st.one_of(
        FILLER,
        st.sampled_from(ORDINARY),
        st.sampled_from([frame.format(secret) for _, frame, secret in SECRETS]),
        st.sampled_from([json.dumps(frame.format(secret)) for _, frame, secret in SECRETS]),
        st.sampled_from(["/home/alice/project/a.py ", "/home/bob/c ", "password=", "Bearer "]),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(pieces=PIECES, between=st.sampled_from(["", " ", "\n", " lorem ipsum dolor " * 30]))
def test_masking_is_idempotent(pieces: list[str], between: str):
    once = MASKER.text(between.join(pieces))
    assert MASKER.text(once) == once


@settings(max_examples=300, deadline=None)
@given(
    pieces=PIECES,
    between=st.sampled_from([" ", "\n", " lorem ipsum dolor " * 30]),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=20),
)
def test_a_stream_shows_the_same_as_the_whole_text(
    pieces: list[str], between: str, sizes: list[int]
):
    text = between.join(pieces)
    deltas: list[str] = []
    position = 0
    while position < len(text):
        size = sizes[len(deltas) % len(sizes)]
        deltas.append(text[position : position + size])
        position += size
    assert streamed(MASKER, deltas) == MASKER.text(text)


@pytest.mark.parametrize(("kind", "frame", "secret"), SECRETS, ids=[s[0] for s in SECRETS])
def test_a_secret_in_single_characters_is_masked(kind: str, frame: str, secret: str):
    for lead in (0, 199, 263, 500):
        text = ("so " * 200)[:lead] + " " + frame.format(secret) + "\nand so on" * 60
        assert streamed(MASKER, list(text)) == MASKER.text(text), lead


def test_a_long_known_secret_is_masked_in_pieces():
    secret = mixed(1500).replace("a", "-")
    masker = Masker(secrets=(secret,))
    text = "words " * 50 + secret + " words" * 50
    assert (
        streamed(masker, list(text)) == masker.text(text) == text.replace(secret, "[masked:secret]")
    )


@pytest.mark.parametrize(
    "secret",
    [
        f"Authorization: AWS4-HMAC-SHA256 Credential=x, Signature={hexadecimal(64)}",
        f"_password = '{mixed(300)}'",
    ],
)
def test_a_secret_behind_an_endless_name_is_masked_in_pieces(secret: str):
    text = "x" * 300 + secret + "\nand so on" * 60
    assert streamed(MASKER, list(text)) == MASKER.text(text)
    assert "[masked:" in MASKER.text(text)


def test_a_stream_leaves_paths_alone_where_only_secrets_are_masked():
    text = "DB_PASSWORD=hunter2secret in /home/alice/project/app.py"
    assert streamed(ONLY_SECRETS, list(text)) == ONLY_SECRETS.text(text)
    assert "/home/alice/project/app.py" in streamed(ONLY_SECRETS, [text])


def test_a_stream_holds_back_little_prose():
    stream = MASKER.stream()
    text = "an ordinary sentence without any end of line, " * 100
    shown = ""
    for position, letter in enumerate(text):
        shown += stream.feed(letter)
        assert position + 1 - len(shown) <= 300
    assert shown + stream.finish() == text


@pytest.mark.parametrize(
    ("opening", "endless", "shown"),
    [
        (PEM.split("\n")[0] + "\n", mixed(64) + "\n", "[masked:private-key]"),
        ('password = "', mixed(64), 'password = "[masked:secret]'),
        ("eyJ" + mixed(20), mixed(50), "[masked:jwt]"),
        (dashed("ghp", "_"), A36, "[masked:token]"),
        ("Cookie: a=", mixed(20), "Cookie: a=[masked:cookie]"),
        ("DB_PASSWORD=", mixed(20), "DB_PASSWORD=[masked:secret]"),
    ],
)
def test_an_endless_secret_takes_bounded_memory(opening: str, endless: str, shown: str):
    stream = MASKER.stream()
    out = stream.feed(opening)
    largest = 0
    for _ in range(4000):
        out += stream.feed(endless)
        largest = max(largest, stream.held)
    assert (out + stream.finish()).rstrip("\n") == shown
    assert largest < 20_000


# Time


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


def test_a_large_text_is_looked_at_again_only_near_a_secret():
    glued = dashed("key", "-", hexadecimal(32)) + dashed("sk", "-or-v1-", hexadecimal(64))
    text = "an ordinary line of text\n" * 5000
    text = f"{text}{glued}\n{text}password = 'hunter2'\n{text}"
    once = MASKER.text(text)
    assert once.count("[masked:") == 3
    assert MASKER.text(once) == once
    assert streamed(MASKER, [text[n : n + 5000] for n in range(0, len(text), 5000)]) == once


def test_a_column_is_masked_however_long_the_table_is():
    rows = [f"user{n},{mixed(20, n)},some words about the user" for n in range(300)]
    text = "\n".join(["first line", "name,password,notes", *rows, "", "the end"])
    masked = MASKER.text(text)
    assert masked.count("[masked:secret]") == 300
    for size in (1, 7, 300, 5000):
        assert streamed(MASKER, [text[n : n + size] for n in range(0, len(text), size)]) == masked
    stream = MASKER.stream()
    for row in rows * 20:
        stream.feed(row + "\n")
        assert stream.held < 8000


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

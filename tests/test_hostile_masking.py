"""No text makes masking hang: what took quadratic time would not end here.

`python3 -m benchmarks.masking` shows that the time is linear.
"""

import pytest

from masking_examples import MASKER, PEM, streamed, upper

pytestmark = pytest.mark.usefixtures("unmeasured")

HOSTILE = [
    "a", "password=", 'password="', "password: x1 ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n", "://", "://a:", "://a:b@", "eyJ",
    "eyJa.", "key-0123456789abcdef0123456789abcdef",
    '"', "\\", '\\"', 'token\\":\\', 'secret\\\\\\":\\"', "-", "_", "sk-", "sk-a1B_", " ", "\n",
    "authorization: ", "authorization: digest a=", "cookie: a=b; ", "/home/", "/home/a.b",
    "    at f (x:1)\n", '  File "x", line 1, in f\n', "  at ", " -pabcd mysql", "by ' ", "EAA",
    "AKIA", "AKIA" + upper(16) + " ", "1", "A", "~", "A" * 64 + "\n",
    "basic ",
    "login password ", " -u a:b", "--token ", "[masked:", "[masked:secret]", "token=$", "key>",
    "1//0",
    "a,password\n", "a,password", "a|password\n-|---\n", "|token|", "token\t",
    "random_password\",\n", "api key: ", '"password" ab=', "htpasswd -b ",
    "thin:a/b@", "\x1b[", "\x1b[1m", "\x1b]8;;", "&#38;#38;", "&amp;", "%25", "\\u005c", "\\=",
    "kind: Secret\ndata:\n a: b\n", '{"kind":"Secret",', "{" * 50 + '"sensitive": true,',
    "sensitive = true\n", "(password) values (", "(password) values ('a'),", "password,a)values(1,",
    "auth('a', 'b', ", "login(", "getConnection(", "a:5432:b:c:", ":*:", "$6$", "$6$a$", "$1234:",
    "sid=" + "a" * 15, "UE9SVD04MDgwCkRCX1BBU1NXT1JEPQ==" * 2 + "\n",
    "UE9SVD04MDgwCkRCX1BBU1NXT1JE",
    "requirepass abcd\n", "login a account b password ", "password: &a ", "\u200b",
    "password,x\ny," + "z" * 210 + "\n", "|password|\n" + " " * 1990 + "\n",
    "|password|\n" + "-" * 1990 + "x\n",
    'password="""', ":5432:a:b:", "/home/index route ",
    "cookie=a=b1;", "cookie=a=${x};", "cookie: a=$x; ", "authorization: bearer $x, ", "sig=a1b2c3",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_hostile_text_does_not_make_masking_hang(piece: str):
    MASKER.text(piece * (200_000 // len(piece)))


@pytest.mark.parametrize(
    "piece", ["word ", "password=", "eyJ", "://a:", PEM.split("\n")[0] + "\nAAAA"]
)
def test_a_long_hostile_stream_does_not_make_masking_hang(piece: str):
    streamed(MASKER, list(piece * (20_000 // len(piece))))

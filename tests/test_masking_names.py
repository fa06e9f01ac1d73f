"""Which names promise a secret, and which values of an environment are one."""

import pytest

from masking_examples import A36, MASKER
from outrider.masking import is_secret_name, secret_environment_values, without_secrets


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

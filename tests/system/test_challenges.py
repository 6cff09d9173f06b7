"""Logins in several steps, over sshd and at a real privacyIDEA."""

import pytest
from server import Server

QUICK = '[lockout]\nthrottle-longest = "0s"\n[challenge]\npush-wait = "30s"\n'


@pytest.fixture(scope="module")
def server(product):
    server = Server(product.host)
    yield server
    server.down()


@pytest.fixture(scope="module", autouse=True)
def people(product, server):
    product.configure(server.settings(more=QUICK))
    for name in ("challenge", "push"):
        product.add_user(name)
    product.serve_ssh()


def test_a_pin_and_then_the_code_that_the_server_asks_for(product, server):
    pin = server.pin("challenge")
    code = server.otp("challenge").removeprefix(pin)
    login = product.ssh("challenge", pin, code, attempts=1)
    assert login.granted, login
    assert "please enter otp: " in login.text
    assert product.ssh("challenge", pin, code, code, code, attempts=1).refused


def test_a_wrong_code_may_be_repeated(product, server):
    pin = server.pin("challenge")
    code = server.otp("challenge").removeprefix(pin)
    wrong = f"{(int(code) + 1) % 10**6:06}"
    assert product.ssh("challenge", pin, wrong, code, attempts=1).granted


def test_without_a_second_prompt_a_challenge_is_a_refusal(product, server):
    pin = server.pin("challenge")
    assert product.ssh("challenge", pin, "123456", method="password").refused
    # PIN and code in one go: the server takes that as well.
    assert product.ssh("challenge", server.otp("challenge"), method="password").granted


def test_a_confirmation_on_the_phone(product, server):
    phone = server.phone("push")
    login = product.ssh("push", server.pin("push"), "", attempts=1)
    assert login.granted, login
    assert "press Enter" in login.text
    assert phone.wait(30) == 0
    assert [row["user"] for row in server.audit(1)] == ["push"]
    events = product.json("log", "push")["events"]
    assert (events[0]["verdict"], events[0]["method"], events[0]["token"]) == ("granted", "server", "PUSH0")


def test_a_login_that_the_phone_declines(product, server):
    phone = server.phone("push", "--decline")
    assert product.ssh("push", server.pin("push"), "", attempts=1).refused
    assert phone.wait(30) == 0
    assert product.json("log", "push")["events"][0]["number"] == 23


def test_without_the_phone_nobody_gets_in(product, server):
    product.configure(server.settings(more=QUICK.replace("30s", "5s")))
    assert product.ssh("push", server.pin("push"), "", attempts=1).refused
    assert product.json("log", "push")["events"][0]["number"] == 24

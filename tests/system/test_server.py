"""Logins that a real privacyIDEA server decides."""

import pytest
from server import CA_FILE, Server

QUICK = '[lockout]\nthrottle-longest = "0s"\n'


@pytest.fixture(scope="module")
def server(product):
    server = Server(product.host)
    yield server
    server.down()


@pytest.fixture(scope="module", autouse=True)
def people(product, server):
    product.configure(server.settings(more=QUICK))
    for name in ("carla", "hotp", "replay", "wrong", "locked", "tokenless"):
        product.add_user(name)
    product.add_user("anna")
    product.serve_ssh()


@pytest.fixture(scope="module")
def anna(product):
    """Who has a local token."""
    return product.enrol("anna", "--type", "hotp")


@pytest.mark.parametrize("method", ["keyboard-interactive", "password"])
def test_a_simple_pass_that_only_the_server_knows(product, server, method):
    assert product.ssh("carla", server.pin("carla"), method=method).granted
    assert product.ssh("carla", "wrong", method=method).refused


def test_a_code_is_good_once(product, server):
    code = server.otp("replay")
    assert product.ssh("replay", code).granted
    assert product.ssh("replay", code).refused
    assert product.ssh("replay", server.otp("replay")).granted


def test_the_server_is_told_who_asks(product, server):
    assert product.ssh("hotp", server.otp("hotp")).granted
    row = server.audit(1)[0]
    assert row["user"] == "hotp" and row["success"] in (1, True, "1")
    assert "privacyidea" in row["user_agent"].lower()


@pytest.mark.parametrize("user", ["locked", "tokenless", "wrong"])
def test_a_refusal_is_a_refusal(product, server, user):
    assert product.ssh(user, "000000").refused


def test_local_tokens_are_checked_on_the_host(product, server, anna):
    rows = server.audit(1000)
    assert product.ssh("anna", anna.code()).granted
    assert [row for row in server.audit(1000)[: -len(rows)] if row["user"] == "anna"] == []


def test_the_server_is_never_asked_for_root_or_local_accounts(product, server):
    for user in ("root", "sshd", "olaf"):
        product.ssh(user, "carla-pin")
    assert {row["user"] for row in server.audit(1000)}.isdisjoint({"root", "sshd", "olaf"})


def test_a_server_that_is_down_is_an_outage_and_local_tokens_go_on(product, server, anna):
    server.down()
    try:
        assert not product.ssh("carla", server.pin("carla")).granted
        assert product.ssh("anna", anna.code()).granted
    finally:
        server.up()
    assert product.ssh("carla", server.pin("carla")).granted


def test_a_server_with_the_wrong_certificate_gets_no_password(product, server):
    other = "/etc/privacyidea-host/other-ca.pem"
    product.host.write(other, open(server.facts["other_ca_file"]).read(), 0o644)
    product.configure(server.settings(ca_file=other, more=QUICK))
    rows = len(server.audit(1000))
    try:
        assert not product.ssh("carla", server.pin("carla")).granted
        assert len(server.audit(1000)) == rows
        assert "certificate" in (product.host.log() + product.host.console()).lower()
    finally:
        product.configure(server.settings(ca_file=CA_FILE, more=QUICK))
    assert product.ssh("carla", server.pin("carla")).granted


def test_logins_without_the_daemon_ask_the_server_too(product, server):
    product.stop()
    try:
        assert product.ssh("carla", server.pin("carla")).granted
    finally:
        product.start()

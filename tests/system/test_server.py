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
    for name in ("carla", "hotp", "replay", "wrong", "locked", "tokenless", "stranger"):
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
    assert row["user_agent"].startswith("privacyidea-host")
    # The person's address out of PAM_RHOST, which the test server believes.
    seen = decision(product, "hotp", server.otp("hotp"), rhost="10.1.2.3")
    assert seen["code"] == "PAM_SUCCESS"
    assert server.audit(1)[0]["client"] == "10.1.2.3"


def test_logins_share_one_connection(product, server):
    def connections() -> set:
        """The daemon's own ends of its connections to the server."""
        port = server.facts["url"].rsplit(":", 1)[1].strip("/")
        listed = product.host.output(f"ss -Htnp state established dst 127.0.0.1:{port}").splitlines()
        return {line.split()[2] for line in listed if "privacyidea-cac" in line}

    # Not through sshd, whose refusals take longer than the test server keeps an idle connection (two seconds).
    assert decision(product, "carla", server.pin("carla"))["code"] == "PAM_SUCCESS"
    first = connections()
    assert len(first) == 1
    for _ in range(5):
        assert decision(product, "carla", server.pin("carla"))["code"] == "PAM_SUCCESS"
        assert decision(product, "carla", "wrong")["code"] == "PAM_AUTH_ERR"
    assert connections() == first


def decision(product, user: str, answer: str, rhost: str = "127.0.0.1") -> dict:
    """The PAM code of a login, and the line that the log has about it."""
    before = len(product.host.log())
    options = ("--phases", "authenticate", "--rhost", rhost)
    (phase,) = product.transaction("sshd", user, answer, arguments=options)["phases"]
    lines = [line for line in product.host.log()[before:].splitlines() if "PIH-AUTH-" in line]
    assert len(lines) == 1, lines
    return {"code": phase["code"], "line": lines[0], "shown": [message["text"] for message in phase["messages"]]}


@pytest.mark.parametrize(
    "user, code, number, words",
    [
        ("wrong", "PAM_AUTH_ERR", 18, "refused by the server"),
        ("locked", "PAM_AUTH_ERR", 18, "Failcounter exceeded"),
        ("tokenless", "PAM_AUTH_ERR", 18, "no tokens assigned"),
        ("stranger", "PAM_USER_UNKNOWN", 19, "the server does not know this user"),
    ],
)
def test_a_refusal_is_a_refusal_and_the_log_says_why(product, server, user, code, number, words):
    answer = server.otp("locked") if user == "locked" else "000000"
    seen = decision(product, user, answer)
    assert seen["code"] == code and f"PIH-AUTH-{number:03}" in seen["line"] and words in seen["line"], seen
    # At the prompt they are all the same.
    assert seen["shown"] == decision(product, "carla", "wrong")["shown"]
    assert product.ssh(user, "000000").refused


def test_a_server_that_cannot_check_now_is_told_apart(product, server):
    realm = server.facts["realms"]["directory_away"]
    product.configure(server.settings(more=f'realm = "{realm}"\n' + QUICK))
    try:
        seen = decision(product, "carla", server.pin("carla"))
        assert seen["code"] == "PAM_AUTHINFO_UNAVAIL" and "PIH-AUTH-031" in seen["line"], seen
    finally:
        product.configure(server.settings(more=QUICK))


def test_what_is_no_privacyidea_is_told_apart(product, server):
    product.configure(server.settings(more=QUICK).replace(server.facts["url"], server.facts["url"] + "/no-such-place"))
    try:
        seen = decision(product, "carla", server.pin("carla"))
        assert seen["code"] == "PAM_AUTHINFO_UNAVAIL" and "PIH-AUTH-032" in seen["line"], seen
    finally:
        product.configure(server.settings(more=QUICK))


def test_local_tokens_are_checked_on_the_host(product, server, anna):
    rows = server.audit(1000)
    assert product.ssh("anna", anna.code()).granted
    assert [row for row in server.audit(1000)[: -len(rows)] if row["user"] == "anna"] == []


def test_the_server_is_never_asked_for_root_or_local_accounts(product, server):
    product.host.write("/etc/pam.d/ours", "auth required pam_privacyidea.so\naccount required pam_privacyidea.so\n")
    rows = len(server.audit(1000))
    for user in ("root", "sshd", "nobody", "olaf", "nobody-of-that-name"):
        product.ssh(user, "carla-pin")
        # Asked like everybody, and refused.
        (phase,) = product.transaction("ours", user, "carla-pin")["phases"]
        assert phase["code"] in ("PAM_AUTH_ERR", "PAM_USER_UNKNOWN"), (user, phase)
    assert len(server.audit(1000)) == rows


def test_local_accounts_are_asked_of_the_server_where_that_is_set(product, server):
    product.configure(server.settings(more="local-accounts = true\n" + QUICK))
    try:
        (phase,) = product.transaction("ours", "olaf", "carla-pin", arguments=("--phases", "authenticate"))["phases"]
        assert phase["code"] == "PAM_USER_UNKNOWN"
        assert server.audit(1)[0]["user"] == "olaf"
        rows = len(server.audit(1000))
        product.transaction("ours", "root", "carla-pin")
        assert len(server.audit(1000)) == rows
    finally:
        product.configure(server.settings(more=QUICK))


def test_a_server_that_is_down_is_an_outage_and_local_tokens_go_on(product, server, anna):
    server.down()
    try:
        seen = decision(product, "carla", server.pin("carla"))
        assert seen["code"] == "PAM_AUTHINFO_UNAVAIL" and "PIH-AUTH-030" in seen["line"], seen
        assert not product.ssh("carla", server.pin("carla")).granted
        assert "cannot be reached" in product.command("status").stdout or product.json("status")["server"]["problem"]
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
        seen = decision(product, "carla", server.pin("carla"))
        assert seen["code"] == "PAM_SYSTEM_ERR" and "PIH-AUTH-033" in seen["line"], seen
        assert "certificate" in seen["line"].lower(), seen
        assert not product.ssh("carla", server.pin("carla")).granted
        assert len(server.audit(1000)) == rows
    finally:
        product.configure(server.settings(ca_file=CA_FILE, more=QUICK))
    assert product.ssh("carla", server.pin("carla")).granted


def test_logins_without_the_daemon_ask_the_server_too(product, server):
    product.stop()
    try:
        assert product.ssh("carla", server.pin("carla")).granted
    finally:
        product.start()

"""PAM lines that name their server, realms, and what a session gets of the user: with a real privacyIDEA."""

import json

import pytest
from product import SSHD_PAM
from server import CA_FILE, Server

QUICK = '[lockout]\nthrottle-longest = "0s"\n'
PAM_TRANSACTION = "/usr/libexec/privacyidea-host/pam-transaction"


@pytest.fixture(scope="module")
def server(product):
    server = Server(product.host)
    yield server
    server.down()


@pytest.fixture(scope="module", autouse=True)
def people(product, server):
    for name in ("carla", "named"):
        product.add_user(name)
    # Beside the users of the daemon, one of /etc/passwd, as users of the older modules are.
    product.host.run("useradd --create-home spass")
    product.serve_ssh()


def transaction(product, line: str, user: str, answer: str) -> dict:
    """One authentication with this line alone, by root's program."""
    product.host.write("/etc/pam.d/lines", f"auth [success=done default=die] pam_privacyidea.so {line}\n")
    command = [PAM_TRANSACTION, "--json", "--no-delay", "--answers-from-stdin", "--phases", "authenticate", "lines", user]
    return json.loads(product.host.run(command, input=f"{answer}\n", check=False).stdout)


def code(report: dict) -> str:
    return report["phases"][0]["code"]


def prompts(report: dict) -> list:
    return [message["text"] for message in report["phases"][0]["messages"]]


def test_a_line_of_the_older_module_needs_no_settings(product, server):
    product.configure(QUICK)
    line = f"url={server.facts['url']} realm=users prompt=[OTP:] offlineFile=/etc/privacyidea/pam.txt debug"
    assert code(transaction(product, line, "carla", server.pin("carla"))) == "PAM_SYSTEM_ERR", "an unknown authority"
    with_authority = f"{line} cacerts={CA_FILE}"
    for user in ("carla", "spass"):
        report = transaction(product, with_authority, user, server.pin(user))
        assert code(report) == "PAM_SUCCESS"
        assert prompts(report) == ["OTP: "]
    assert code(transaction(product, with_authority, "carla", "wrong")) == "PAM_AUTH_ERR"
    assert code(transaction(product, f"{line} nossl", "carla", server.pin("carla"))) == "PAM_SUCCESS"
    log = product.host.log()
    assert log.count("PIH-AUTH-062") == 1, "the certificate that was not looked at"
    assert "offlineFile" in log and server.pin("carla") not in log


def test_a_line_over_ssh(product, server):
    product.configure(QUICK)
    line = f"pam_privacyidea.so url={server.facts['url']} cacerts={CA_FILE}"
    product.host.write("/etc/pam.d/sshd", SSHD_PAM.replace("pam_privacyidea.so", line))
    try:
        for user in ("carla", "spass"):
            assert product.ssh(user, server.pin(user)).granted
            assert product.ssh(user, "wrong").refused
    finally:
        product.host.write("/etc/pam.d/sshd", SSHD_PAM)


def test_a_realm_of_the_line_is_another_person(product, server):
    product.configure(server.settings(more=QUICK))
    caseless = server.facts["caseless_pin"]
    assert code(transaction(product, "realm=caseless", "carla", caseless)) == "PAM_SUCCESS"
    assert code(transaction(product, "realm=caseless", "carla", server.pin("carla"))) == "PAM_AUTH_ERR"
    assert code(transaction(product, "", "carla", caseless)) == "PAM_AUTH_ERR"


def test_attributes_are_in_the_environment_of_the_session(product, server):
    attributes = '[attributes]\nPRIVACYIDEA_NAME = "givenname"\nPRIVACYIDEA_REALM = "realm"\n'
    product.configure(server.settings(more=QUICK + attributes))
    report = transaction(product, "", "named", server.pin("named"))
    assert report["environment"] == ["PRIVACYIDEA_NAME=Named", "PRIVACYIDEA_REALM=users"]
    assert transaction(product, "", "named", "wrong")["environment"] == []
    login = product.ssh("named", server.pin("named"), command="echo \"$PRIVACYIDEA_NAME of $PRIVACYIDEA_REALM\"")
    assert login.granted and "Named of users" in login.text, login

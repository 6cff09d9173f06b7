"""Tokens as the administrator keeps them: enrolment at a terminal, drift, PINs, locks; and what they mean at a login."""

import json
import re
import time

import pytest
from otp import Authenticator

SETTINGS = '[lockout]\nafter = 3\nthrottle-longest = "0s"\n'
QUICK = '[lockout]\nthrottle-longest = "0s"\n'


@pytest.fixture(scope="module", autouse=True)
def people(product):
    product.configure(QUICK)
    product.add_user("anna")
    product.serve_ssh()


@pytest.fixture(autouse=True)
def no_tokens_left(product):
    yield
    for token in product.json("token", "list", "anna")["tokens"]:
        product.command("token", "remove", token["serial"], "--yes")


def only_token(product) -> dict:
    (token,) = product.json("token", "list", "anna")["tokens"]
    return token


def test_an_enrolment_at_a_terminal_shows_a_qr_code_and_wants_a_first_code(product):
    with product.host.terminal("privacyidea-host token enrol anna --type hotp") as terminal:
        uri = terminal.expect(r"otpauth://\S+")[0]
        app = Authenticator.scan(uri)
        # Half blocks, two modules high: at least the 21 by 21 modules of the smallest QR code.
        drawn = [line for line in terminal.text.splitlines() if "▀" in line or "▄" in line or "█" in line]
        assert len(drawn) >= 11 and max(map(len, drawn)) >= 21, terminal.text
        right = app.code()
        terminal.answer("shows now: ?$", "000000" if right != "000000" else "000001")
        terminal.expect("shows now: ?$")
        assert not only_token(product)["active"]
        # It lets nobody in before.
        assert product.ssh("anna", right).refused
        terminal.type(right)
        assert terminal.end() == 0, terminal.text
    token = only_token(product)
    assert token["active"] and token["last-used"] is None
    assert product.ssh("anna", right).refused, "the first code was used up by the proof"
    before = int(time.time())
    assert product.ssh("anna", app.code()).granted
    assert before <= only_token(product)["last-used"] <= time.time()


def test_an_enrolment_left_without_its_first_code_is_confirmed_later(product):
    answer = product.json("token", "enrol", "anna", "--type", "hotp")
    app, serial = Authenticator.scan(answer["otpauth"]), answer["token"]["serial"]
    assert not answer["token"]["active"]
    assert product.ssh("anna", app.code()).refused
    assert product.json("token", "confirm", serial, input=app.code() + "\n")["token"]["active"]
    assert product.ssh("anna", app.code()).granted


def test_two_consecutive_codes_find_a_token_again_that_ran_ahead(product):
    app = product.enrol("anna", "--type", "hotp")
    serial = only_token(product)["serial"]
    # Beyond the window, and no second login that would find it by itself.
    for _ in range(60):
        app.code()
    assert product.ssh("anna", app.code()).refused
    first, _, third = app.code(), app.code(), app.code()
    refused = product.command("token", "resync", serial, input=f"{first}\n{third}\n", check=False)
    assert refused.returncode == 1, "not consecutive"
    fourth, fifth = app.code(), app.code()
    with product.host.terminal(f"privacyidea-host token resync {serial}") as terminal:
        terminal.answer("shows now: ?$", fourth)
        terminal.answer("after it: ?$", fifth)
        assert terminal.end() == 0, terminal.text
    assert product.ssh("anna", fifth).refused, "used up"
    assert product.ssh("anna", app.code()).granted


def test_a_pin_may_stand_behind_the_code_and_be_changed_and_taken_away(product):
    options = ["--type", "totp", "--algorithm", "sha512", "--digits", "8", "--period", "3607"]
    app = product.enrol("anna", *options, "--pin-from-stdin", "--pin-position", "after", input="geheim\n")
    serial = only_token(product)["serial"]
    code = app.code()
    assert product.ssh("anna", "geheim" + code).refused
    assert product.ssh("anna", code + "geheim").granted
    product.command("token", "remove", serial, "--yes")

    app = product.enrol("anna", "--type", "hotp")
    serial = only_token(product)["serial"]
    with product.host.terminal(f"privacyidea-host token set-pin {serial}") as terminal:
        terminal.answer(r"not shown\): ?$", "4711")
        terminal.answer("same again: ?$", "4711")
        assert terminal.end() == 0, terminal.text
    assert product.ssh("anna", app.code()).refused
    assert product.ssh("anna", "4711" + app.code()).granted
    product.command("token", "set-pin", serial, "--no-pin")
    assert product.ssh("anna", app.code()).granted


def test_a_simple_pass_is_its_pin_as_often_as_wanted(product):
    product.command("token", "enrol", "anna", "--type", "simple-pass", "--pin-from-stdin", input="offen sesam\n")
    for _ in range(2):
        assert product.ssh("anna", "offen sesam").granted
    assert product.ssh("anna", "offen").refused


def test_a_success_resets_all_tokens_of_the_user_where_that_is_set(product):
    product.configure(QUICK + "reset-all-user-tokens = true\n")
    app = product.enrol("anna", "--type", "hotp")
    product.enrol("anna", "--type", "hotp")
    assert product.ssh("anna", "000000").refused
    counts = lambda: [token["failcount"] for token in product.json("token", "list", "anna")["tokens"]]
    assert counts() == [1, 1]
    assert product.ssh("anna", app.code()).granted
    assert counts() == [0, 0]
    product.configure(QUICK)
    assert product.ssh("anna", "000000").refused
    assert product.ssh("anna", app.code()).granted
    assert sorted(counts()) == [0, 1], "only its own"


def test_a_locked_user_gets_in_at_the_console_only_and_not_by_key_either(product):
    host = product.host
    product.configure(SETTINGS)
    app = product.enrol("anna", "--type", "hotp")
    host.run(
        "install -d -m 700 -o anna -g anna /home/anna /home/anna/.ssh; rm -f /root/key;"
        "ssh-keygen -q -t ed25519 -N '' -f /root/key;"
        "install -m 600 -o anna -g anna /root/key.pub /home/anna/.ssh/authorized_keys"
    )
    by_key = (
        "ssh -i /root/key -o PreferredAuthentications=publickey -o StrictHostKeyChecking=no"
        " -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR anna@127.0.0.1 id -un"
    )
    assert host.output(by_key) == "anna"
    wrong = product.ssh("anna", "000000")
    assert product.ssh("anna", "000001", "000002").refused
    token = only_token(product)
    assert token["locked"] and token["locked-until"] - time.time() > 29 * 60

    refused = host.run(by_key, check=False)
    assert refused.returncode != 0 and "anna" not in refused.stdout, "the account phase"
    locked = product.ssh("anna", app.code())
    assert locked.refused and locked.text == wrong.text, "the prompt does not tell"

    # As login(1) does it on the first virtual console, and su from a terminal of a session there.
    line = "auth required pam_privacyidea.so\naccount required pam_privacyidea.so\n"
    before = host.read("/etc/pam.d/login")
    host.write("/etc/pam.d/login", line)
    try:
        from_afar = product.transaction("login", "anna", app.code(), arguments=("--tty", "pts/1"))
        assert from_afar["phases"][0]["code"] == "PAM_AUTH_ERR"
        at_the_console = product.transaction("login", "anna", app.code(), arguments=("--tty", "/dev/tty1"))
        assert [phase["code"] for phase in at_the_console["phases"]] == ["PAM_SUCCESS", "PAM_SUCCESS"]
    finally:
        host.write("/etc/pam.d/login", before)
    product.command("token", "unlock", "anna")
    assert host.output(by_key) == "anna"
    assert product.ssh("anna", app.code()).granted
    product.configure(QUICK)


def test_a_lock_until_unlocked_says_so(product):
    product.configure(SETTINGS + 'for = "until-unlocked"\n')
    app = product.enrol("anna", "--type", "hotp")
    assert product.ssh("anna", "000000", "000001", "000002").refused
    token = only_token(product)
    assert token["locked"] and token["locked-until"] is None
    assert product.ssh("anna", app.code()).refused
    product.command("token", "unlock", token["serial"])
    assert product.ssh("anna", app.code()).granted
    product.configure(QUICK)


def test_every_command_answers_in_json(product):
    product.configure(QUICK)
    enrolled = product.json("token", "enrol", "anna", "--type", "hotp", "--pin-from-stdin", input="4711\n")
    app, serial = Authenticator.scan(enrolled["otpauth"]), enrolled["token"]["serial"]
    codes = app.code(), app.code(), app.code()
    for arguments, typed, kind in [
        (["token", "confirm", serial], f"{codes[0]}\n", "token"),
        (["token", "list"], "", "tokens"),
        (["token", "show", serial], "", "token"),
        (["token", "resync", serial], f"{codes[1]}\n{codes[2]}\n", "token"),
        (["token", "unlock", serial], "", "tokens"),
        (["token", "set-pin", serial, "--no-pin"], "", "token"),
        (["user", "add", "jana"], "", None),
        (["user", "list"], "", None),
        (["user", "remove", "jana", "--yes"], "", None),
        (["cache", "list"], "", "cache"),
        (["cache", "flush"], "", "flushed"),
        (["cache", "flush", "anna"], "", "flushed"),
        (["status"], "", "status"),
        (["check-config"], "", None),
        (["test-login", "anna", "--service", "sshd"], f"{app.code()}\n", "test-login"),
        (["log"], "", "audit"),
        (["token", "remove", serial, "--yes"], "", "done"),
    ]:
        answer = product.json(*arguments, input=typed)
        assert answer["answer"] == (kind or answer["answer"]) and answer["answer"] != "refused", (arguments, answer)
    refused = product.command("token", "show", serial, "--json", check=False)
    assert refused.returncode == 1 and json.loads(refused.stdout)["answer"] == "refused"


def test_status_counts_what_there_is(product):
    product.enrol("anna", "--type", "hotp")
    status = product.json("status")
    assert status["running-since"] <= time.time()
    (resolver,) = status["resolvers"]
    assert resolver["users"] >= 1 and resolver["refused"] == [] and resolver["problem"] is None
    assert status["map"]["users"] == resolver["users"] and time.time() - status["map"]["built"] < 3600
    assert status["tokens"]["total"] == 1 and status["server"] is None
    assert status["state-bytes"] > 0 and status["cache-bytes"] > 0
    text = product.command("status").stdout
    assert re.search(r"^daemon +running since .*\nserver +none .*\nusers +files: \d+ user", text), text
    assert "\ntokens     1\n" in text and "state.db" in text and "nss        passwd and group ask us" in text, text


def test_status_without_the_daemon_says_so(product):
    product.stop()
    try:
        done = product.command("status", user="olaf", check=False)
        assert done.returncode == 3 and "daemon" in done.stderr.lower(), done
    finally:
        product.start()

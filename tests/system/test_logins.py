"""Logins with one-time codes through the host's real sshd, su, sudo and login."""

import time

import pytest
from host import wait_for

# Refusals cost seconds on a real host; the throttle has a test of its own.
SETTINGS = '[lockout]\nthrottle-longest = "0s"\n'
PAM_TRANSACTION = "/usr/libexec/privacyidea-host/pam-transaction"
MODULE = "auth [success=done ignore=ignore default=die] pam_privacyidea.so\n"


@pytest.fixture(scope="module", autouse=True)
def people(product):
    product.configure(SETTINGS)
    for name in ("anna", "berta", "carla", "dora"):
        product.add_user(name)
    product.serve_ssh()


@pytest.fixture
def anna(product):
    """Anna's HOTP app, with a new token."""
    app = product.enrol("anna", "--type", "hotp")
    yield app
    for token in product.json("token", "list", "anna")["tokens"]:
        product.command("token", "remove", token["serial"], "--yes")


@pytest.mark.parametrize("method", ["keyboard-interactive", "password"])
def test_a_code_lets_in_once(product, anna, method):
    code = anna.code()
    login = product.ssh("anna", code, method=method)
    assert login.granted and login.text.endswith("anna\r\n"), login
    again = product.ssh("anna", code, method=method)
    assert again.refused, again
    assert product.ssh("anna", anna.code(), method=method).granted


def test_the_prompt_says_what_to_type(product, anna):
    login = product.ssh("anna", anna.code())
    assert "One-time code:" in login.text


def test_a_wrong_code_is_refused_and_the_right_one_still_works(product, anna):
    assert product.ssh("anna", "000000").refused
    assert product.ssh("anna", anna.code()).granted


def test_a_second_chance_within_one_connection(product, anna):
    login = product.ssh("anna", "000000", anna.code())
    assert login.granted, login


@pytest.mark.parametrize("algorithm, digits", [("sha1", 6), ("sha256", 8), ("sha512", 7)])
def test_codes_by_time(product, algorithm, digits):
    # A period of an hour: no code ends while the test runs.
    options = ["--type", "totp", "--algorithm", algorithm, "--digits", str(digits), "--period", "3600"]
    app = product.enrol("berta", *options)
    code = app.code()
    assert len(code) == digits
    assert product.ssh("berta", code).granted
    assert product.ssh("berta", code).refused
    for token in product.json("token", "list", "berta")["tokens"]:
        product.command("token", "remove", token["serial"], "--yes")


def test_a_pin_goes_in_front_of_the_code(product):
    app = product.enrol("carla", "--type", "hotp", "--pin-stdin", input="1234\n")
    assert product.ssh("carla", app.code()).refused
    assert product.ssh("carla", "1234" + app.code()).granted
    assert product.ssh("carla", "1234").refused


def test_a_recovery_code_is_good_for_one_login(product):
    codes = product.json("token", "enrol", "dora", "--type", "recovery-codes", "--no-verify")["codes"]
    assert product.ssh("dora", codes[0]).granted
    assert product.ssh("dora", codes[0]).refused
    assert product.ssh("dora", codes[1]).granted


def test_failures_lock_the_token_until_the_administrator_unlocks_it(product, anna):
    product.configure('[lockout]\nthrottle-longest = "0s"\nafter = 3\n')
    assert product.ssh("anna", "000000", "000001", "000002").refused
    assert product.ssh("anna", anna.code()).refused
    (token,) = product.json("token", "list", "anna")["tokens"]
    assert token["locked"] and token["failcount"] >= 3
    product.command("token", "unlock", "anna")
    assert product.ssh("anna", anna.code()).granted
    product.configure(SETTINGS)


def test_failures_are_slowed_down(product, anna):
    product.configure('[lockout]\nthrottle-after = 1\nthrottle-longest = "60s"\n')
    # The wait doubles with each failure: after four it is longer than the delay that PAM itself makes.
    code = anna.code()
    assert product.ssh("anna", *(f"00000{n}" for n in range(4)), code).refused
    assert "PIH-AUTH-017" in product.host.log()
    # The code was not even looked at, so it is still good.
    wait_for(lambda: product.ssh("anna", code).granted, 20, "the end of the wait")
    product.configure(SETTINGS)


def test_unknown_and_tokenless_people_look_like_a_wrong_code(product, anna):
    wrong = product.ssh("anna", "000000")
    product.add_user("emil")
    for user in ("emil", "nobody-of-that-name"):
        login = product.ssh(user, "000000")
        assert login.refused
        assert login.text.replace(user, "anna") == wrong.text


def test_odd_answers_do_no_harm(product, anna):
    for answer in ("", "x" * 512, "\udcff\udcfe"):
        assert product.ssh("anna", answer).refused
    assert product.ssh("anna", anna.code()).granted


def test_a_local_account_logs_in_with_its_password(product):
    assert product.ssh("olaf", "local-password").granted


def test_su_and_sudo_ask_for_a_code(product, anna):
    host = product.host
    before = {name: host.read(f"/etc/pam.d/{name}") for name in ("su", "sudo")}
    try:
        for name, text in before.items():
            host.write(f"/etc/pam.d/{name}", MODULE + text.replace("auth       sufficient pam_rootok.so", ""))
        with host.terminal("su anna -c 'id -un'", user="olaf") as terminal:
            terminal.answer("One-time code: ?$", anna.code())
            assert terminal.end() == 0
            assert terminal.text.endswith("anna\r\n")
        host.write("/etc/sudoers.d/anna", "anna ALL=(ALL) ALL\n", 0o440)
        with host.terminal("sudo id -u", user="anna") as terminal:
            terminal.answer("One-time code: ?$", anna.code())
            assert terminal.end() == 0
            assert terminal.text.endswith("0\r\n")
    finally:
        for name, text in before.items():
            host.write(f"/etc/pam.d/{name}", text)


def test_login_on_a_terminal(product, anna):
    host = product.host
    before = host.read("/etc/pam.d/login")
    host.write("/etc/pam.d/login", MODULE + before)
    try:
        # As getty does it: login(1) leads the session of its terminal.
        with host.terminal("exec setsid --ctty --wait login anna") as terminal:
            terminal.answer("One-time code: ?$", anna.code())
            terminal.answer(r"\$ ?$", "id -un; exit")
            terminal.expect("anna\r\n")
            terminal.end()
    finally:
        host.write("/etc/pam.d/login", before)


def test_a_caller_that_is_not_root_can_check_its_own_user(product, anna):
    """A screen locker: the PAM application runs as the user."""
    product.host.write("/etc/pam.d/locker", MODULE + "auth required pam_deny.so\n")
    command = ["/usr/libexec/privacyidea-host/pam-transaction", "--phases", "authenticate", "locker", "anna"]
    with product.host.terminal(command, user="anna") as terminal:
        terminal.answer("One-time code: ?$", anna.code())
        assert terminal.end() == 0, terminal.text
    command.insert(1, "--answers-from-stdin")
    code = anna.code()
    assert product.host.run(command, user="olaf", input=f"{code}\n", check=False).returncode == 1
    assert product.host.run(command, user="anna", input=f"{code}\n", check=False).returncode == 0


def test_logins_go_on_when_the_daemon_is_stopped(product, anna):
    product.stop()
    try:
        code = anna.code()
        assert product.ssh("anna", code).granted
        assert product.ssh("anna", code).refused
    finally:
        product.start()
    assert product.ssh("anna", code).refused
    assert product.ssh("anna", anna.code()).granted


def test_a_stopped_daemon_is_no_way_for_others(product, anna):
    """Who is not root cannot start the check by itself."""
    product.host.write("/etc/pam.d/locker", MODULE + "auth required pam_deny.so\n")
    product.stop()
    try:
        command = ["/usr/libexec/privacyidea-host/pam-transaction", "--answers-from-stdin", "--phases", "authenticate", "locker", "anna"]
        done = product.host.run(command, user="anna", input=anna.code() + "\n", check=False)
        assert done.returncode != 0
    finally:
        product.start()


def test_the_command_line_tests_a_login(product, anna):
    with product.host.terminal("privacyidea-host test-login anna --service sshd") as terminal:
        terminal.answer("One-time code: ?$", anna.code())
        assert terminal.end() == 0, terminal.text


def test_neither_codes_nor_seeds_are_in_a_log(product, anna):
    code = anna.code()
    assert product.ssh("anna", code).granted
    assert product.ssh("anna", "271828").refused
    text = product.host.log() + product.host.console()
    assert "anna" in text
    for secret in (code, "271828"):
        assert secret not in text


def test_a_login_costs_little_time(product, anna):
    """Not a benchmark: nothing in the way of a login waits for a timeout."""
    code = anna.code()
    start = time.monotonic()
    assert product.ssh("anna", code).granted
    assert time.monotonic() - start < 5


def test_a_broken_configuration_lets_nobody_in(product, anna):
    before = product.host.read("/etc/privacyidea-host/config.toml")
    product.stop()
    product.host.write("/etc/privacyidea-host/config.toml", "[lockout]\nno-such-key = 1\n")
    try:
        done = product.host.run("timeout 10 /usr/sbin/privacyidea-cached", check=False)
        assert done.returncode not in (0, 124)
        assert "no-such-key" in done.stderr and "config.toml" in done.stderr
        assert not product.ssh("anna", anna.code()).granted
        done = product.host.run(f"{PAM_TRANSACTION} --service sshd --user anna --json --answers-from-stdin </dev/null", check=False)
        assert "PAM_AUTHINFO_UNAVAIL" in done.stdout, done.stdout + done.stderr
        done = product.host.run("privacyidea-host status", check=False)
        assert done.returncode == 1 and "no-such-key" in done.stderr, done.stderr
    finally:
        product.host.write("/etc/privacyidea-host/config.toml", before)
        product.start()
    assert wait_for(lambda: product.ssh("anna", anna.code()).granted, 30)

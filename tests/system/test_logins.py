"""Logins with one-time codes through the host's real sshd, su, sudo and login."""

import base64
import re
import time

import pytest
from debian_root import PROJECT
from host import wait_for
from product import AUTH_LINES, PAM_TRANSACTION

# Refusals cost seconds on a real host; the throttle has a test of its own.
SETTINGS = '[lockout]\nthrottle-longest = "0s"\n'
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


def test_the_documents_have_the_lines_that_are_tested():
    words = lambda text: [line.split() for line in text.splitlines()]
    for path in ("docs/administrators-guide.md", "README.md", "docs/man/pam_privacyidea.8"):
        shown = words((PROJECT / path).read_text().replace("\\-", "-"))
        for line in words(AUTH_LINES):
            assert line in shown, (path, line)


def test_a_code_after_the_password(product):
    """The guide's second way, for a local account whose password the host checks."""
    guide = (PROJECT / "docs/administrators-guide.md").read_text()
    lines = guide[guide.index("**A code after the password**") :].split("\n\n")[1]
    assert lines.count("pam_privacyidea.so") == 1 and "success=ok" in lines
    product.host.run("useradd --groups users lena; echo lena:her-password | chpasswd")
    product.host.write("/etc/pam.d/both", "@include common-auth\n" + lines + "\naccount required pam_privacyidea.so\n")
    app = product.enrol("lena", "--type", "hotp")
    for password, code, granted in [
        ("her-password", app.code(), True),
        ("her-password", "000000", False),
        ("wrong", app.code(), False),
        ("her-password", app.code(), True),
        ("her-password", "", False),
    ]:
        report = product.transaction("both", "lena", password, code)
        assert report["succeeded"] == granted, (password, report)
    # Whom the group lets pass, and nobody else, gets in by the password alone.
    done = product.transaction("both", "olaf", "local-password", arguments=("--phases", "authenticate"))
    assert done["succeeded"], done
    for token in product.json("token", "list", "lena")["tokens"]:
        product.command("token", "remove", token["serial"], "--yes")
    assert not product.transaction("both", "lena", "her-password", "her-password")["succeeded"]


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


@pytest.mark.parametrize("method", ["keyboard-interactive", "password"])
def test_odd_answers_do_no_harm(product, anna, method):
    before = product.pid()
    for answer in ("", "x" * 512, "\udcff\udcfe"):
        assert product.ssh("anna", answer, method=method).refused
    assert product.pid() == before, "a daemon that crashed would not be missed: the module starts its own"
    assert product.ssh("anna", anna.code(), method=method).granted


@pytest.mark.parametrize("answer", ["", "x" * 512, "\udcff\udcfe"])
def test_odd_passwords_of_an_earlier_module_do_no_harm(product, anna, answer):
    """As pam_unix leaves them for `use_first_pass`."""
    product.host.write("/etc/pam.d/second", "auth optional pam_unix.so\nauth required pam_privacyidea.so use_first_pass\n")
    before = product.pid()
    arguments = ("--phases", "authenticate")
    typed = [answer.encode(errors="surrogateescape")]
    (phase,) = product.transaction("second", "anna", *typed, arguments=arguments)["phases"]
    assert phase["code"] == "PAM_AUTH_ERR", phase
    assert product.pid() == before
    granted = product.transaction("second", "anna", anna.code(), arguments=arguments)
    assert granted["succeeded"] and [message["text"] for message in granted["phases"][0]["messages"]] == ["Password: "]


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
    command = [PAM_TRANSACTION, "--phases", "authenticate", "locker", "anna"]
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


@pytest.mark.parametrize("harm", ["head -c 9000 /dev/urandom >state.db", ": >state.db"])
def test_a_damaged_state_stops_the_daemon_which_says_how_to_restore_it(product, anna, harm):
    host, directory = product.host, "/var/lib/privacyidea-host"
    assert product.ssh("anna", anna.code()).granted
    product.stop()
    # So old that the next start makes it anew, with the token in it.
    host.run(f"touch --date=@0 {directory}/state.db.daily")
    product.start()
    wait_for(lambda: host.path(f"{directory}/state.db.daily").stat().st_mtime > 1e9, 10, "the copy")
    product.stop()
    host.run(f"cp -a {directory} /root/state && cd {directory} && rm -f state.db-wal state.db-shm && {harm}")
    try:
        done = host.run("timeout 10 /usr/sbin/privacyidea-cached", check=False)
        assert done.returncode == 1, done
        sentence = re.search(r"copy (\S+) to (\S+) and give it to (\S+?);", done.stderr)
        assert sentence, done.stderr
        (phase,) = product.transaction("sshd", "anna", anna.code(), arguments=("--phases", "authenticate"))["phases"]
        assert phase["code"] == "PAM_AUTHINFO_UNAVAIL", phase
        # As it says.
        copy, path, user = sentence.groups()
        host.run(f"mv {path} /root/damaged; cp {copy} {path}; chown {user} {path}")
        product.start()
        assert product.ssh("anna", anna.code()).granted
        assert host.output(f"stat --format='%a %U' {path}") == "600 _privacyidea"
    except BaseException:
        host.run(f"rm -rf {directory}/* && cp -a /root/state/. {directory}")
        raise
    finally:
        host.run("rm -rf /root/state")


def test_a_stopped_daemon_is_no_way_for_others(product, anna):
    """Who is not root cannot start the check by itself."""
    product.host.write("/etc/pam.d/locker", MODULE + "auth required pam_deny.so\n")
    product.stop()
    try:
        (phase,) = product.transaction("locker", "anna", anna.code(), arguments=("--phases", "authenticate"), caller="anna")["phases"]
        assert phase["code"] == "PAM_AUTHINFO_UNAVAIL", phase
        assert phase["messages"] == [], "whom nobody can check is not asked either"
    finally:
        product.start()


def test_the_command_line_tests_a_login(product, anna):
    with product.host.terminal("privacyidea-host test-login anna --service sshd") as terminal:
        code = anna.code()
        terminal.answer("One-time code: ?$", code)
        assert terminal.end() == 0, terminal.text
    assert "PIH-AUTH-001" in terminal.text, terminal.text
    # The same again is refused, and what the daemon noted says why.
    with product.host.terminal("privacyidea-host test-login anna --service sshd") as terminal:
        terminal.answer("One-time code: ?$", code)
        assert terminal.end() == 1, terminal.text
    assert "PIH-AUTH-011" in terminal.text and "has been used" in terminal.text, terminal.text


def test_neither_codes_nor_seeds_are_in_a_log(product, anna):
    code, pin = anna.code(), "pin-of-a-test"
    secrets = [code, "271828", pin]
    assert product.ssh("anna", code).granted
    assert product.ssh("anna", "271828").refused
    (token,) = product.json("token", "list", "anna")["tokens"]
    product.command("token", "set-pin", token["serial"], "--pin-from-stdin", input=pin + "\n")
    assert product.ssh("anna", pin + anna.code()).granted
    assert product.ssh("anna", anna.code() + pin).refused
    recovery = product.json("token", "enrol", "anna", "--type", "recovery-codes", "--no-verify")["codes"]
    product.stop()
    try:
        assert product.ssh("anna", recovery[0]).granted
        assert product.ssh("anna", recovery[0]).refused
    finally:
        product.start()
    seed = anna.seed
    secrets += [*recovery, seed.hex(), base64.b32encode(seed).decode().rstrip("="), base64.b64encode(seed).decode()]
    audit = product.command("log", "--json").stdout + product.json("token", "show", token["serial"]).__repr__()
    text = product.host.log() + product.host.console() + audit
    assert text.count("PIH-AUTH-001") >= 2 and "PIH-AUTH-010" in text
    for secret in secrets:
        assert secret.lower() not in text.lower()


def test_seeds_are_for_the_daemon_alone(product, anna):
    host = product.host
    for name in host.output("ls /var/lib/privacyidea-host").split():
        path = f"/var/lib/privacyidea-host/{name}"
        assert host.output(["stat", "--format=%a %U", path]) == "600 _privacyidea"
        for user in ("anna", "olaf"):
            assert host.run(["cat", path], user=user, check=False).returncode != 0
    assert "state.db" in host.output("ls /var/lib/privacyidea-host").split()


def test_a_login_costs_little_time(product, anna):
    """Not a benchmark: nothing in the way of a login waits for a timeout."""
    code = anna.code()
    start = time.monotonic()
    assert product.ssh("anna", code).granted
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "text, mode, sentence",
    [
        ("[lockout]\nno-such-key = 1\n", 0o640, "line 2, key lockout.no-such-key: unknown field"),
        ("[lockout]\nafter = true\n", 0o640, "line 2, key lockout.after: invalid type: boolean `true`, expected a whole number"),
        ("", 0o660, "its mode 0660 lets others than its owner write it"),
        ("", 0o600, "cannot be read: Permission denied"),
    ],
)
def test_a_broken_configuration_lets_nobody_in(product, anna, text, mode, sentence):
    host, config = product.host, "/etc/privacyidea-host/config.toml"
    before = host.read(config)
    product.stop()
    # Neither are there users then whom nobody knows yet: an outage, not "no such user".
    host.run("mkdir /root/maps; mv /var/cache/privacyidea-host/*.map /root/maps/")
    host.write(config, text or before, mode)
    try:
        done = host.run("timeout 10 /usr/sbin/privacyidea-cached", check=False)
        assert done.returncode == 78, done
        assert config in done.stderr and sentence in done.stderr
        assert not product.ssh("anna", anna.code()).granted
        for phase in ("authenticate", "account"):
            (report,) = product.transaction("sshd", "anna", anna.code(), arguments=("--phases", phase))["phases"]
            assert report["code"] == "PAM_AUTHINFO_UNAVAIL", report
        assert sentence in host.log()
        errno = host.output(["perl", "-e", "$! = 0; my @found = getpwnam('anna'); print $! + 0, ' ', scalar @found"])
        assert errno == "11 0", "EAGAIN, and nobody"
        done = product.command("status", check=False)
        assert done.returncode == 1 and sentence in done.stderr, done.stderr
    finally:
        host.write(config, before, 0o640)
        host.run("mv /root/maps/*.map /var/cache/privacyidea-host/; rmdir /root/maps")
        product.start()
    assert wait_for(lambda: product.ssh("anna", anna.code()).granted, 30)

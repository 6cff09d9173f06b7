"""The daemon under systemd: socket activation, restarts, and what happens without it."""

import time

import pytest
from host import wait_for

UNIT = "privacyidea-cached"


@pytest.fixture(scope="module", autouse=True)
def people(booted):
    booted.add_user("anna")
    booted.serve_ssh()


@pytest.fixture(scope="module")
def anna(booted):
    return booted.enrol("anna", "--type", "hotp")


def is_active(host, unit: str) -> bool:
    return host.run(["systemctl", "is-active", "--quiet", unit], check=False).returncode == 0


def test_it_runs_after_the_installation(booted):
    assert is_active(booted.host, f"{UNIT}.socket") and is_active(booted.host, f"{UNIT}.service")
    assert booted.host.output("systemctl is-enabled privacyidea-cached.socket privacyidea-cached.service").split() == [
        "enabled",
        "enabled",
    ]
    assert booted.host.output("systemctl is-system-running") == "running"


def test_it_runs_as_its_own_user_without_privileges(booted):
    main = booted.host.output(f"systemctl show --property=MainPID --value {UNIT}.service")
    status = dict(line.split(":", 1) for line in booted.host.read(f"/proc/{main}/status").splitlines())
    own = booted.host.output("id -u _privacyidea")
    assert status["Uid"].split() == [own] * 4
    assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"


def test_a_login_through_sshd_gets_a_session(booted, anna):
    login = booted.ssh("anna", anna.code(), command="id -un; loginctl --no-legend list-sessions")
    assert login.granted and login.text.count("anna") >= 2, login


def test_a_stopped_daemon_comes_back_with_the_next_login(booted, anna):
    booted.host.run(f"systemctl stop {UNIT}.service")
    assert not is_active(booted.host, f"{UNIT}.service")
    assert booted.ssh("anna", anna.code()).granted
    assert is_active(booted.host, f"{UNIT}.service")


def test_a_killed_daemon_comes_back(booted, anna):
    host = booted.host
    before = host.output(f"systemctl show --property=MainPID --value {UNIT}.service")
    host.run(f"systemctl kill --signal=KILL {UNIT}.service")

    def another() -> bool:
        now = host.output(f"systemctl show --property=MainPID --value {UNIT}.service")
        return now not in (before, "0") and host.path("/run/privacyidea-host/lookup.sock").exists()

    wait_for(another, 15, "the restarted daemon")
    assert booted.ssh("anna", anna.code()).granted
    assert host.output("id -un anna") == "anna"


def test_with_service_and_socket_stopped_logins_and_lookups_go_on(booted, anna):
    host = booted.host
    host.run(f"systemctl stop {UNIT}.socket {UNIT}.service")
    try:
        code = anna.code()
        assert host.output("id -un anna") == "anna"
        assert booted.ssh("anna", code).granted
        assert booted.ssh("anna", code).refused
        assert not is_active(host, f"{UNIT}.service")
        # What the one-time process wrote belongs to the daemon's user.
        owners = host.output("stat --format=%U /var/lib/privacyidea-host/* /var/cache/privacyidea-host/*").split()
        assert set(owners) == {"_privacyidea"}
    finally:
        host.run(f"systemctl start {UNIT}.socket {UNIT}.service")
    assert booted.ssh("anna", anna.code()).granted


def test_a_restart_of_the_service_breaks_nothing(booted, anna):
    booted.host.run(f"systemctl restart {UNIT}.service")
    assert booted.host.output("id -un anna") == "anna"
    assert booted.ssh("anna", anna.code()).granted


def test_credentials_are_read_by_systemd_only(booted):
    assert booted.host.run("ls /etc/privacyidea-host/credentials", user="_privacyidea", check=False).returncode != 0


def test_an_upgrade_restarts_the_daemon_and_keeps_tokens(booted, anna, packages):
    host = booted.host
    before = host.output(f"systemctl show --property=MainPID --value {UNIT}.service")
    host.install(packages)
    assert host.output(f"systemctl show --property=MainPID --value {UNIT}.service") not in (before, "0")
    assert booted.ssh("anna", anna.code()).granted


def test_a_broken_configuration_is_said_in_the_journal(booted):
    host = booted.host
    before = host.read("/etc/privacyidea-host/config.toml")
    host.write("/etc/privacyidea-host/config.toml", "[cache]\ntimeout = 5\n")
    try:
        assert host.run(f"systemctl restart {UNIT}.service", check=False).returncode != 0
        journal = host.output(f"journalctl --quiet --no-pager --unit={UNIT}.service")
        assert "config.toml, line 2, key cache.timeout: invalid type: integer `5`, expected a time" in journal
        # Whoever logs in meanwhile wakes it again each time, until systemd gives the socket up: all are told at once that
        # it cannot be decided.
        for _ in range(10):
            start = time.monotonic()
            (phase,) = booted.transaction("sshd", "anna", "123456", arguments=("--phases", "authenticate"))["phases"]
            assert phase["code"] == "PAM_AUTHINFO_UNAVAIL", phase
            assert time.monotonic() - start < 5
    finally:
        host.write("/etc/privacyidea-host/config.toml", before)
    # Instead of the ten seconds after which systemd counts those starts no more.
    host.run(f"systemctl reset-failed {UNIT}.service {UNIT}.socket")
    host.run(f"systemctl restart {UNIT}.service")
    assert is_active(host, f"{UNIT}.socket")

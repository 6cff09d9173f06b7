"""Users and groups, as every program of the host sees them."""

import pytest
from host import wait_for

SETTINGS = '[cache]\ntimeout = "2s"\nnegative-timeout = "1s"\n'


@pytest.fixture(scope="module", autouse=True)
def users(product):
    product.add_user("anna", "--uid", "70001", "--gecos", "Anna Example")
    product.host.run("printf 'staff2:x:71001:anna\\nempty:x:71002:\\n' >>/etc/privacyidea-host/users/group")
    product.command("cache", "flush")


def passwd(product, key) -> list:
    done = product.host.run(["getent", "passwd", str(key)], check=False)
    return done.stdout.rstrip("\n").split(":") if done.returncode == 0 else None


def test_a_user_by_name_and_by_id(product):
    entry = passwd(product, "anna")
    assert entry[0] == "anna" and entry[2] == "70001" and entry[4] == "Anna Example"
    assert entry[5:] == ["/home/anna", "/bin/bash"]
    assert passwd(product, 70001) == entry


def test_groups_and_memberships(product):
    assert product.host.output("getent group staff2") == "staff2:*:71001:anna"
    assert product.host.output("getent group 71002").startswith("empty:*:71002:")
    assert "71001(staff2)" in product.host.output("id anna")
    assert "staff2" in product.host.output("id -Gn", user="anna").split()


def test_any_user_of_the_host_can_look_up(product):
    assert product.host.output("id -u anna", user="olaf") == "70001"


def test_unknown_names_and_ids_are_not_found(product):
    for key in ("nobody-of-that-name", 70999):
        assert product.host.run(["getent", "passwd", str(key)], check=False).returncode == 2


def test_local_accounts_are_as_before(product):
    assert product.host.output("id -u root olaf nobody").split() == ["0", "1000", "65534"]


def test_a_new_user_shows_at_once(product):
    assert passwd(product, "berta") is None
    product.add_user("berta")
    assert passwd(product, "berta") is not None
    product.command("user", "remove", "berta", "--yes")
    assert passwd(product, "berta") is None


@pytest.mark.parametrize(
    "arguments, reason",
    [
        (["root"], "root is never taken"),
        (["olaf"], "/etc/passwd has a user of this name"),
        (["low", "--uid", "999"], "its uid 999 is below 1000"),
        (["twin", "--uid", "1000"], "its uid 1000 belongs to olaf"),
        (["twin", "--uid", "70001"], "the uid 70001 belongs to anna already"),
        (["anna"], "the users file has a user anna already"),
        (["a:b"], "its name"),
        (["bell\a"], "its name"),
        (["nora", "--gecos", "x:y"], "its field gecos"),
        (["nora", "--home", "home"], "its home is no absolute path"),
    ],
)
def test_what_the_resolver_would_refuse_is_not_added(product, arguments, reason):
    files = "cat /etc/privacyidea-host/users/passwd /etc/privacyidea-host/users/group"
    before = product.host.output(files)
    done = product.command("user", "add", *arguments, check=False)
    assert done.returncode == 1 and reason in done.stderr, done
    assert product.host.output(files) == before


def test_a_change_of_the_file_shows_after_its_timeout_or_a_flush(product):
    product.configure(SETTINGS)
    path = "/etc/privacyidea-host/users/passwd"
    before = product.host.read(path)
    product.host.write(path, before.replace("Anna Example", "Anna Married"))
    wait_for(lambda: passwd(product, "anna")[4] == "Anna Married", 10, "the change")
    product.configure("")
    product.host.write(path, before)
    product.command("cache", "flush", "anna")
    assert passwd(product, "anna")[4] == "Anna Example"


def test_a_malformed_line_costs_only_itself(product):
    path = "/etc/privacyidea-host/users/passwd"
    before = product.host.read(path)
    product.host.write(path, before + "broken line\nroot:x:0:0::/:/bin/sh\nolaf:x:70003:70003::/:/bin/sh\nlow:x:999:999::/:/bin/sh\n")
    product.command("cache", "flush")
    lines = before.count("\n")
    for number, reason in enumerate(
        ("it has 1 fields", "(root) is refused: root is never taken", "(olaf) is refused: /etc/passwd has", "(low) is refused: its uid 999"),
        lines + 1,
    ):
        told = [line for line in product.host.console().splitlines() if f"{path} line {number} " in line]
        assert len(told) == 1 and reason in told[0], told
    assert len(product.json("status")["resolvers"][0]["refused"]) == 4
    assert passwd(product, "anna")[2] == "70001"
    assert passwd(product, "root")[2] == "0" and passwd(product, "olaf")[2] == "1000"
    assert passwd(product, "low") is None and passwd(product, 70003) is None
    product.host.write(path, before)
    product.command("cache", "flush")


def test_enumeration_is_off_until_it_is_switched_on(product):
    assert "anna:" not in product.host.output("getent passwd")
    product.configure("[cache]\nenumerate = true\n")
    listed = product.host.output("getent passwd").splitlines()
    assert [line.split(":")[0] for line in listed].count("anna") == 1
    assert "staff2:*:71001:anna" in product.host.output("getent group").splitlines()
    product.configure("")
    assert "anna:" not in product.host.output("getent passwd")


def test_lookups_go_on_when_the_daemon_is_stopped(product):
    entry = passwd(product, "anna")
    product.stop()
    try:
        assert passwd(product, "anna") == entry
        assert passwd(product, 70001) == entry
        assert "71001(staff2)" in product.host.output("id anna")
        # A name that the map does not know may exist: that is an outage, and no "no such user" after seconds.
        assert product.host.run(["timeout", "2", "getent", "passwd", "never-seen"], check=False).returncode == 2
        assert passwd(product, "olaf")[2] == "1000"
    finally:
        product.start()


def test_that_there_was_no_such_user_is_believed_for_its_timeout(product):
    product.configure(SETTINGS)
    assert passwd(product, "nora") is None
    path = "/etc/privacyidea-host/users/passwd"
    before = product.host.read(path)
    product.host.write(path, before + "nora:x:70009:70001::/home/nora:/bin/bash\n")
    wait_for(lambda: passwd(product, "nora"), 10, "the new user")
    product.host.write(path, before)
    wait_for(lambda: passwd(product, "nora") is None, 10, "the end of the removed user")
    product.configure("")


# To files that programs have mapped nothing is done in place: to shorten those is to kill whoever reads them.
REPLACED = "for file in *; do head -c 9000 /dev/urandom >/root/rubbish; install -o _privacyidea -m 644 /root/rubbish $file; done"
IN_PLACE = "head -c 3000 /dev/urandom | dd of={} conv=notrunc status=none"


@pytest.mark.parametrize("harm", ["rm -f *", REPLACED, IN_PLACE.format("cache.db"), IN_PLACE.format("cache.db-wal")])
@pytest.mark.parametrize("running", [False, True])
def test_a_lost_or_corrupt_cache_is_built_again(product, harm, running):
    harm = f"cd /var/cache/privacyidea-host && {harm}"
    pid = product.pid()
    if running:
        product.host.run(harm)
        product.command("cache", "flush")
        assert product.pid() == pid, "the daemon goes on"
    else:
        product.stop()
        product.host.run(harm)
        product.start()
    assert passwd(product, "anna")[2] == "70001"
    # From the map again, with nobody there to ask.
    product.stop()
    try:
        assert passwd(product, 70001)[0] == "anna"
        assert "71001(staff2)" in product.host.output("id anna")
    finally:
        product.start()

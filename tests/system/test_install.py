"""Installing, upgrading, removing and purging the packages."""

import gzip
import io
import re
import subprocess
import tarfile

import pytest
from product import Product

NAMES = "libnss-privacyidea libpam-privacyidea privacyidea-cached privacyidea-host"
TRIPLET = "x86_64-linux-gnu"

# path: (mode, owner, group)
OWNED = {
    "/etc/privacyidea-host": ("755", "root", "root"),
    "/etc/privacyidea-host/config.toml": ("640", "root", "_privacyidea"),
    "/etc/privacyidea-host/credentials": ("700", "root", "root"),
    "/etc/privacyidea-host/users/passwd": ("644", "root", "root"),
    "/etc/privacyidea-host/users/group": ("644", "root", "root"),
    "/var/lib/privacyidea-host": ("700", "_privacyidea", "_privacyidea"),
    "/var/cache/privacyidea-host": ("755", "_privacyidea", "_privacyidea"),
    "/usr/sbin/privacyidea-cached": ("755", "root", "root"),
    "/usr/bin/privacyidea-host": ("755", "root", "root"),
    f"/usr/lib/{TRIPLET}/libnss_privacyidea.so.2": ("644", "root", "root"),
    f"/usr/lib/{TRIPLET}/security/pam_privacyidea.so": ("644", "root", "root"),
}


def owners(host) -> dict:
    lines = host.output(["stat", "--format=%n %a %U %G", *OWNED]).splitlines()
    return {path: tuple(rest) for path, *rest in map(str.split, lines)}


def services(host, database: str) -> list:
    line = re.search(rf"^{database}:(.*)$", host.read("/etc/nsswitch.conf"), re.MULTILINE)
    return line[1].split()


def test_files_modes_and_users_are_as_documented(product):
    assert owners(product.host) == OWNED
    passwd = product.host.output("getent passwd _privacyidea").split(":")
    assert passwd[5:] == ["/nonexistent", "/usr/sbin/nologin"]
    assert int(passwd[2]) < 1000


def test_our_users_come_after_the_local_files(product):
    for database in ("passwd", "group"):
        found = services(product.host, database)
        assert found.index("privacyidea") == found.index("files") + 1
    assert "privacyidea" not in services(product.host, "shadow")


def test_one_package_brings_the_others(product):
    depends = product.host.output("dpkg-query --show --showformat='${Depends}' privacyidea-host")
    for name in ("libnss-privacyidea", "libpam-privacyidea", "privacyidea-cached"):
        assert re.search(rf"\b{name} \(= ", depends), depends


def test_it_works_as_installed(product):
    """No server, local tokens, users of two files in the format of passwd(5) and group(5)."""
    status = product.json("status")
    assert status["server"] is None
    (resolver,) = status["resolvers"]
    assert (resolver["kind"], resolver["users"], resolver["problem"]) == ("files", 0, None)
    product.add_user("erika")
    line = product.host.read("/etc/privacyidea-host/users/passwd")
    assert re.fullmatch(r"(?:#.*\n|\n)*erika:x:(\d{4,}):\1:.*:/home/erika:/bin/bash\n", line), line
    assert product.host.output("getent passwd erika").split(":")[2] == line.split(":")[-5]
    product.enrol("erika", "--type", "hotp")
    product.command("user", "remove", "erika", "--yes")


def test_nothing_changes_a_login_at_install(product):
    assert "privacyidea" not in product.host.output("cat /etc/pam.d/*")


def test_the_modules_need_little(product):
    """What is loaded into sshd or ls brings no other library with it."""
    for module, allowed in {
        f"/usr/lib/{TRIPLET}/libnss_privacyidea.so.2": {"libc.so.6", "libgcc_s.so.1"},
        f"/usr/lib/{TRIPLET}/security/pam_privacyidea.so": {"libc.so.6", "libgcc_s.so.1", "libpam.so.0"},
    }.items():
        needed = product.host.output(["ldd", module])
        names = {line.split()[0].rsplit("/", 1)[-1] for line in needed.splitlines()}
        assert names - allowed <= {"linux-vdso.so.1", "ld-linux-x86-64.so.2", "libaudit.so.1", "libcap-ng.so.0"}, needed


def commands(product, *above) -> list:
    """Every command that the help names, as the words behind the program's name."""
    text = product.command(*above, "--help").stdout
    section = re.search(r"^Commands:\n((?: .*\n|\n)*)", text, re.MULTILINE)
    names = re.findall(r"^  ([a-z][a-z-]*)", section[1], re.MULTILINE) if section else []
    below = [[*above, name] for name in names if name != "help"]
    return below + [command for words in below for command in commands(product, *words)]


def page_text(packages, page: str) -> str:
    """A manual page out of the .deb that has it (the throwaway hosts keep none on their disk)."""
    for package in packages:
        archive = tarfile.open(fileobj=io.BytesIO(subprocess.check_output(["dpkg-deb", "--fsys-tarfile", package])))
        if f"./usr/share/man/{page}" in archive.getnames():
            return gzip.decompress(archive.extractfile(f"./usr/share/man/{page}").read()).decode()
    raise AssertionError(f"no package has {page}")


def test_there_are_manual_pages_and_completions(product, packages):
    listed = product.host.output(f"dpkg -L {NAMES}").splitlines()
    found = commands(product)
    assert ["token", "enrol"] in found and ["check-config"] in found and len(found) > 15
    for name in (
        "man8/pam_privacyidea.8",
        "man8/libnss_privacyidea.8",
        "man8/privacyidea-cached.8",
        "man5/privacyidea-host.toml.5",
        "man8/privacyidea-host.8",
        *("man8/privacyidea-host-" + "-".join(words) + ".8" for words in found),
    ):
        assert f"/usr/share/man/{name}.gz" in listed, name
    # Every file that an administrator meets is spoken of in one of the pages.
    pages = [line.removeprefix("/usr/share/man/") for line in listed if line.startswith("/usr/share/man/man") and line.endswith(".gz")]
    text = "".join(page_text(packages, page) for page in pages).replace("\\-", "-")
    files = product.host.output(
        "find /etc/privacyidea-host /var/lib/privacyidea-host /var/cache/privacyidea-host /run/privacyidea-host ! -type d"
    ).splitlines()
    # A database's log and index, and the lock, are the programs' own.
    met = [path for path in files if not path.endswith(("-wal", "-shm", ".lock"))]
    assert "/etc/privacyidea-host/users/group" in met and "/run/privacyidea-host/lookup.sock" in met
    assert [path for path in met if path not in text] == []
    for completion in (
        "bash-completion/completions/privacyidea-host",
        "zsh/vendor-completions/_privacyidea-host",
        "fish/vendor_completions.d/privacyidea-host.fish",
    ):
        assert f"/usr/share/{completion}" in listed
        assert product.host.path(f"/usr/share/{completion}").stat().st_size > 200


def test_a_reinstall_keeps_what_the_administrator_wrote(bare, packages):
    bare.install(packages)
    product = Product(bare)
    product.start()
    product.add_user("anna")
    bare.run("echo '# mine' >>/etc/privacyidea-host/config.toml")
    bare.run("echo secret >/etc/privacyidea-host/credentials/token")
    users = bare.read("/etc/privacyidea-host/users/passwd")
    switch = bare.read("/etc/nsswitch.conf").replace("files privacyidea", "files [SUCCESS=return] privacyidea")
    bare.write("/etc/nsswitch.conf", switch)

    bare.install(packages)

    assert bare.read("/etc/privacyidea-host/config.toml").endswith("# mine\n")
    assert bare.read("/etc/privacyidea-host/users/passwd") == users
    assert bare.read("/etc/privacyidea-host/credentials/token") == "secret\n"
    assert bare.read("/etc/nsswitch.conf") == switch
    assert owners(bare) == OWNED


def test_a_name_service_that_the_administrator_took_out_stays_out(bare, packages):
    bare.install(packages)
    bare.run("sed -i 's/ privacyidea//' /etc/nsswitch.conf")
    switch = bare.read("/etc/nsswitch.conf")
    bare.install(packages)
    assert bare.read("/etc/nsswitch.conf") == switch


@pytest.mark.parametrize("host_fixture", ["bare", "bare_systemd"])
def test_purge_leaves_nothing_and_logins_work(host_fixture, packages, request):
    host = request.getfixturevalue(host_fixture)
    before = everything(host)
    switch, pam = host.read("/etc/nsswitch.conf"), host.output("cat /etc/pam.d/*")
    host.install(packages)
    product = Product(host)
    product.start()
    product.add_user("anna")
    product.enrol("anna", "--type", "hotp")
    assert host.output("id -un anna") == "anna"

    host.run(f"apt-get purge --yes {NAMES}", timeout=120)

    host.run("rm -r /root/packages")
    assert everything(host) - before == set()
    assert "privacyidea" not in host.read("/etc/passwd") + host.read("/etc/group") + host.read("/etc/nsswitch.conf")
    assert (host.read("/etc/nsswitch.conf"), host.output("cat /etc/pam.d/*")) == (switch, pam)
    assert host.run("pgrep privacyidea", check=False).stdout == ""
    assert host.run("getent passwd anna", check=False).returncode == 2
    assert host.output("su - olaf -c 'id -un'") == "olaf"
    assert host.run("sudo --stdin --prompt= id -u", user="olaf", input="local-password\n").stdout == "0\n"
    product.serve_ssh(host.read("/etc/pam.d/sshd"))
    assert product.ssh("olaf", "local-password").granted
    if host.systemd:
        assert host.output("systemctl is-system-running") == "running"


def everything(host) -> set:
    """Every path of the host where a package may leave something."""
    found = host.output("find /etc /usr /var /run /home /opt /srv /root /tmp -xdev -o -name privacyidea-host")
    passing = re.compile(
        r"/var/(log|lib/(apt|dpkg|systemd|ucf|private)|cache/(apt|debconf|ldconfig))|/run/(systemd|log|udev|user|lock)|"
        r"/etc/[^/]*-$|/etc/ld\.so\.cache|/tmp/systemd-private|/run/(sudo|adduser)|/var/tmp/systemd-private|/run/utmp|/run/sshd\.pid"
    )
    return {path for path in found.splitlines() if not passing.match(path)}


def test_the_module_is_not_taken_away_from_under_a_login(bare, packages):
    bare.install(packages)
    line = "auth sufficient pam_privacyidea.so\n"
    sudo = bare.read("/etc/pam.d/sudo")
    bare.write("/etc/pam.d/sudo", line + sudo)

    refused = bare.run("apt-get purge --yes libpam-privacyidea", check=False)
    assert refused.returncode != 0
    assert "/etc/pam.d/sudo:1:auth sufficient pam_privacyidea.so" in refused.stderr
    assert bare.path(f"/usr/lib/{TRIPLET}/security/pam_privacyidea.so").exists()

    bare.write("/etc/pam.d/sudo", "#" + line + "-" + line + sudo)
    bare.run("apt-get purge --yes libpam-privacyidea")
    assert not bare.path(f"/usr/lib/{TRIPLET}/security/pam_privacyidea.so").exists()


def test_an_administrator_can_force_the_removal(bare, packages):
    bare.install(packages)
    bare.write("/etc/pam.d/sudo", "auth sufficient pam_privacyidea.so\n" + bare.read("/etc/pam.d/sudo"))
    bare.run("PRIVACYIDEA_FORCE_REMOVE=yes apt-get purge --yes libpam-privacyidea")
    assert not bare.path(f"/usr/lib/{TRIPLET}/security/pam_privacyidea.so").exists()

"""Fills a fresh privacyIDEA with users, policies and tokens; run by `server` with the server's own Python.

It calls privacyIDEA's library instead of its REST API: one start of the application instead of dozens of requests.
Writes DIR/users.json, the part of facts.json that depends on nothing else.
"""

import base64
import json
import sqlite3
import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from privacyidea.app import create_app
from privacyidea.lib.auth import create_db_admin
from privacyidea.lib.config import set_privacyidea_config
from privacyidea.lib.machine import attach_token
from privacyidea.lib.policy import set_policy
from privacyidea.lib.realm import set_default_realm, set_realm
from privacyidea.lib.resolver import save_resolver
from privacyidea.lib.token import enable_token, get_tokens, init_token, revoke_token, set_failcounter
from privacyidea.lib.user import User
from privacyidea.models import db

HOME = Path(sys.argv[1])
REALM = "users"
ADMIN = {"name": "admin", "password": "admin-password"}


def seed(number, length=20):
    return f"{number:02x}" * length


def spass():
    return {"type": "spass"}


def hotp(number):
    return {"type": "hotp", "seed": seed(number), "digits": 6, "algorithm": "sha1"}


def totp(number, digits=6, algorithm="sha1", length=20):
    return {"type": "totp", "seed": seed(number, length), "digits": digits, "algorithm": algorithm, "period": 30}


def push():
    """A phone that polls; its private key is in DIR/phone-SERIAL.pem."""
    return {"type": "push"}


# Name, PIN, tokens. The names say what they are for; `carla` is the person of the demo.
USERS = [
    ("carla", "carla-pin", [spass()]),
    ("spass", "spass-pin", [spass()]),
    ("hotp", "hotp-pin", [hotp(0x11)]),
    ("replay", "replay-pin", [hotp(0x12)]),
    ("wrong", "wrong-pin", [hotp(0x13)]),
    ("totp", "totp-pin", [totp(0x14)]),
    ("totp256", "totp256-pin", [totp(0x15, 8, "sha256", 32)]),
    ("two", "two-pin", [hotp(0x16), totp(0x17)]),
    ("locked", "locked-pin", [hotp(0x18)]),
    ("disabled", "disabled-pin", [spass()]),
    ("revoked", "revoked-pin", [spass()]),
    ("expired", "expired-pin", [spass()]),
    ("tokenless", "", []),
    ("challenge", "challenge-pin", [hotp(0x19)]),
    ("special", 'a%41b+c &d=e "ü€\\ ', [spass()]),
    ("müller", "müller-pin", [spass()]),
    ("named", "named-pin", [spass()]),
    ("audited", "audited-pin", [spass()]),
    ("offline", "offline-pin", [hotp(0x31)]),
    ("offgone", "offgone-pin", [hotp(0x32)]),
    ("offcode", "offcode-pin", [hotp(0x33)]),
    ("passed", "", []),
    ("push", "push-pin", [push()]),
]


def resolvers():
    passwd = HOME / "passwd"
    lines = [f"{name}:x:{20001 + n}:{20001 + n}:{name.title()} Test,,,:/home/{name}:/bin/bash"
             for n, (name, _, _) in enumerate(USERS)]
    passwd.write_text("\n".join(lines) + "\n")
    save_resolver({"resolver": "passwd", "type": "passwdresolver", "fileName": str(passwd)})
    set_realm(REALM, [{"name": "passwd"}])
    set_default_realm(REALM)

    # A directory in which names match without case, as LDAP's and MySQL's do.
    people = HOME / "people.sqlite"
    with sqlite3.connect(people) as database:
        database.execute("create table people (id integer primary key, name text collate nocase)")
        database.execute("insert into people values (30001, 'carla')")
    save_resolver({"resolver": "people", "type": "sqlresolver", "Driver": "sqlite", "Server": "",
                   "Database": str(people), "Table": "people", "Limit": 100,
                   "Map": json.dumps({"userid": "id", "username": "name"})})
    set_realm("caseless", [{"name": "people"}])

    # A directory that is down: nothing listens on port 1.
    save_resolver({"resolver": "away", "type": "ldapresolver", "LDAPURI": "ldap://127.0.0.1:1", "LDAPBASE": "dc=test",
                   "BINDDN": "cn=none", "BINDPW": "none", "LOGINNAMEATTRIBUTE": "uid", "UIDTYPE": "uid",
                   "LDAPSEARCHFILTER": "(uid=*)", "USERINFO": json.dumps({"username": "uid"}), "TIMEOUT": "1",
                   "NOSCHEMAS": "True"})
    set_realm("away", [{"name": "away"}])


def policies():
    set_privacyidea_config("PrependPin", "True")
    set_privacyidea_config("splitAtSign", "True")
    set_privacyidea_config("DefaultMaxFailCount", "10")
    # Any host may name a client of 10.0.0.0/8.
    set_privacyidea_config("OverrideAuthorizationClient", "0.0.0.0/0>10.0.0.0/8")
    set_policy("challenge", scope="authentication", action="challenge_response=hotp", realm=REALM, user="challenge")
    set_policy("push", scope="authentication", action="push_allow_polling=allow, push_text_on_mobile=Login?",
               realm=REALM, user="push")
    # Phones are told it; ours goes where the server is.
    set_policy("push_url", scope="enrollment", action="push_registration_url=https://pi.example/ttype/push", realm=REALM)
    set_policy("challenge_offline", scope="authentication", action="challenge_response=hotp", realm=REALM, user="offcode")
    set_policy("name_caseless", scope="authorization", action="add_user_in_response", realm="caseless")
    set_policy("name_named", scope="authorization", action="add_user_in_response", realm=REALM, user="named")
    set_policy("where_named", scope="authorization", action="add_resolver_in_response", realm=REALM, user="named")
    # A yes that names no token.
    set_policy("passed", scope="authentication", action="passOnNoToken", realm=REALM, user="passed")
    # For clients of 10.66.0.0/16; a realm would not do: where the user is not found, policies of any realm match.
    set_policy("hushed", scope="authentication", action="hide_specific_error_message", client="10.66.0.0/16")


def enrol(name, realm, pin, tokens):
    for number, token in enumerate(tokens):
        # Serials are ASCII.
        token["serial"] = f"{name.replace('ü', 'ue').upper()}{number}"
        parameters = {"type": token["type"], "serial": token["serial"], "pin": pin}
        if "seed" in token:
            parameters.update(otpkey=token["seed"], otplen=token["digits"], hashlib=token["algorithm"])
        if "period" in token:
            parameters["timeStep"] = token["period"]
        if token["type"] == "push":
            enrol_phone(parameters, User(name, realm))
        else:
            init_token(parameters, user=User(name, realm))


def enrol_phone(parameters, user):
    """Both steps of an enrolment, the second as the phone would do it."""
    serial = parameters["serial"]
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (HOME / f"phone-{serial}.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, *formats))
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    token = init_token({**parameters, "genkey": 1, "push_firebase_configuration": "poll only"}, user=user)
    credential = token.get_tokeninfo("enrollment_credential")
    token.update({"serial": serial, "fbtoken": "none", "pubkey": base64.urlsafe_b64encode(public).decode(),
                  "enrollment_credential": credential})


def offline():
    """Values for logins without the server, few and quickly made."""
    for serial in ("OFFLINE0", "OFFGONE0", "OFFCODE0"):
        attach_token(serial, "offline", options={"count": "20", "rounds": "1000"})


def states():
    set_failcounter("LOCKED0", 10)
    enable_token("DISABLED0", enable=False)
    revoke_token("REVOKED0")
    get_tokens(serial="EXPIRED0")[0].set_validity_period_end("2020-01-01T00:00+0000")
    db.session.commit()


def main():
    app = create_app(config_name="production", config_file=str(HOME / "pi.cfg"), silent=True)
    with app.app_context():
        db.create_all()
        create_db_admin(ADMIN["name"], password=ADMIN["password"])
        resolvers()
        policies()
        facts = {}
        for number, (name, pin, tokens) in enumerate(USERS):
            enrol(name, REALM, pin, tokens)
            facts[name] = {"realm": REALM, "uid": 20001 + number, "pin": pin, "tokens": tokens}
        init_token({"type": "spass", "serial": "CASELESS0", "pin": "caseless-pin"}, user=User("carla", "caseless"))
        offline()
        states()
    # So that a reader (the counters for `otp`) never makes the server wait.
    with sqlite3.connect(HOME / "pi.sqlite") as database:
        database.execute("pragma journal_mode = wal")
    realms = {"default": REALM, "caseless": "caseless", "directory_away": "away"}
    text = {"realm": REALM, "realms": realms, "caseless_pin": "caseless-pin", "admin": ADMIN,
            "database": str(HOME / "pi.sqlite"), "passwd": str(HOME / "passwd"), "users": facts}
    (HOME / "users.json").write_text(json.dumps(text, ensure_ascii=False))


main()

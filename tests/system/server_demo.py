"""The demo's scenes with a real privacyIDEA server."""

from product import Product
from server import Server


def show_server(product: Product) -> None:
    """People whose tokens only the server knows: a simple pass, and an HOTP token with a PIN."""
    print("\n== A real privacyIDEA server (installed from the Python registry the first time: a minute)", flush=True)
    server = Server(product.host)
    try:
        product.configure(server.settings())
        print("    testhost# cat /etc/privacyidea-host/config.toml")
        print("\n".join("    " + line for line in product.host.read("/etc/privacyidea-host/config.toml").splitlines()))
        for user, what in (("carla", "a simple pass: a PIN alone"), ("hotp", "a PIN followed by the phone's code")):
            product.add_user(user)
            print(f"\n== {user} has a token at the server only: {what}", flush=True)
            for answer in (server.otp(user), "wrong"):
                print(f"    phone$ ssh {user}@testhost id        (types {answer})")
                login = product.ssh(user, answer, command="id")
                print("\n".join("    " + line for line in login.text.replace("\r", "").strip().splitlines()))
                print(f"    → {'logged in' if login.granted else 'refused'}")
                if login.granted is not (answer != "wrong"):
                    raise SystemExit(f"tests/demo: that should not have happened\n{product.host.log()}")
        print("\n== What the server noted")
        for row in reversed(server.audit(4)):
            values = {key: row[key] for key in ("user", "serial", "authentication", "client", "user_agent")}
            print("    " + ", ".join(f"{key} {value}" for key, value in values.items()))
    finally:
        server.down()

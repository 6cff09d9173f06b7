"""One-time passwords after RFC 4226 and RFC 6238, written apart from the product so that the two check each other."""

import base64
import hashlib
import hmac
import struct
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit


def hotp(seed: bytes, counter: int, digits: int = 6, algorithm: str = "sha1") -> str:
    """RFC 4226 §5.3."""
    digest = hmac.new(seed, struct.pack(">Q", counter), getattr(hashlib, algorithm)).digest()
    offset = digest[-1] & 0x0F
    number = struct.unpack(">I", digest[offset : offset + 4])[0] & 0x7FFFFFFF
    return str(number % 10**digits).zfill(digits)


@dataclass
class Authenticator:
    """The app on a person's phone: made from the otpauth URI that an enrolment shows."""

    seed: bytes
    digits: int = 6
    algorithm: str = "sha1"
    period: int = 30
    counter: int | None = None  # HOTP; none: TOTP

    @classmethod
    def scan(cls, uri: str) -> "Authenticator":
        """Reads an otpauth:// URI (the Key URI format)."""
        parts = urlsplit(uri)
        assert parts.scheme == "otpauth" and parts.netloc in ("hotp", "totp"), uri
        values = {key: value[0] for key, value in parse_qs(parts.query).items()}
        secret = values["secret"].upper()
        return cls(
            seed=base64.b32decode(secret + "=" * (-len(secret) % 8)),
            digits=int(values.get("digits", 6)),
            algorithm=values.get("algorithm", "SHA1").lower(),
            period=int(values.get("period", 30)),
            counter=int(values["counter"]) if parts.netloc == "hotp" else None,
        )

    def code(self) -> str:
        """What the app shows. An HOTP app moves on to the next value; TOTP shows the one of this time step."""
        if self.counter is None:
            return hotp(self.seed, int(time.time()) // self.period, self.digits, self.algorithm)
        self.counter += 1
        return hotp(self.seed, self.counter - 1, self.digits, self.algorithm)

    def step(self) -> int:
        """The time step of now (TOTP)."""
        return int(time.time()) // self.period

"""The tests' own one-time passwords against the vectors of the RFCs."""

import base64

from otp import Authenticator, hotp


def test_vectors_of_rfc_4226_and_rfc_6238():
    seed = b"12345678901234567890"
    assert [hotp(seed, counter) for counter in range(3)] == ["755224", "287082", "359152"]
    assert hotp(seed, 59 // 30, 8) == "94287082"
    assert hotp(b"12345678901234567890123456789012", 1111111109 // 30, 8, "sha256") == "68084774"


def test_an_authenticator_reads_the_uri_that_an_enrolment_shows():
    secret = base64.b32encode(b"12345678901234567890").decode().rstrip("=")
    app = Authenticator.scan(f"otpauth://hotp/host:anna?secret={secret}&counter=1&digits=6&algorithm=SHA1&issuer=host")
    assert [app.code(), app.code()] == ["287082", "359152"]

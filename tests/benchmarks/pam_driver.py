"""Runs on the throwaway host: times what a plan (JSON) names, by turns. Prints {who: [milliseconds]} as JSON."""

import ctypes
import hashlib
import hmac
import json
import os
import re
import socket
import ssl
import struct
import sys
import time

PROMPT_ECHO_OFF, SUCCESS = 1, 0
LIBPAM, LIBC = ctypes.CDLL("libpam.so.0"), ctypes.CDLL(None)
LIBC.calloc.restype = LIBC.strdup.restype = ctypes.c_void_p


class Message(ctypes.Structure):
    _fields_ = [("style", ctypes.c_int), ("text", ctypes.c_char_p)]


class Response(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("code", ctypes.c_int)]


CONVERSE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(Message)), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class Conversation(ctypes.Structure):
    _fields_ = [("converse", CONVERSE), ("data", ctypes.c_void_p)]


answer = b""


@CONVERSE
def converse(count, messages, responses, _data):
    room = LIBC.calloc(count, ctypes.sizeof(Response))
    for index in range(count):
        if messages[index].contents.style == PROMPT_ECHO_OFF:
            Response.from_address(room + index * ctypes.sizeof(Response)).text = LIBC.strdup(answer)
    responses[0] = room
    return SUCCESS


CONVERSATION = Conversation(converse, None)


def transaction(service: str, user: str) -> float:
    """Milliseconds of one transaction that must be granted."""
    handle = ctypes.c_void_p()
    start = time.perf_counter()
    begun = LIBPAM.pam_start(service.encode(), user.encode(), ctypes.byref(CONVERSATION), ctypes.byref(handle))
    granted = LIBPAM.pam_authenticate(handle, 0) if begun == SUCCESS else begun
    LIBPAM.pam_end(handle, granted)
    end = time.perf_counter()
    if granted != SUCCESS:
        sys.exit(f"{service}: {user} was refused: PAM code {granted}")
    return (end - start) * 1000


class Request:
    """POST /validate/check on a connection that is kept open: the least that asking a server can take."""

    def __init__(self, port: int, ca: str, body: str):
        context = ssl.create_default_context(cafile=ca)
        # Python 3.13 wants extensions of a certificate authority that a test's does not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.bytes = (
            "POST /validate/check HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def time(self) -> float:
        """Milliseconds of one request that must be answered with yes."""
        start = time.perf_counter()
        self.stream.sendall(self.bytes)
        answer = b""
        while not self._is_whole(answer):
            piece = self.stream.recv(65536)
            if not piece:
                sys.exit("the server has closed the connection")
            answer += piece
        end = time.perf_counter()
        if b'"ACCEPT"' not in answer:
            sys.exit(f"the server said: {answer.decode(errors='replace')}")
        return (end - start) * 1000

    @staticmethod
    def _is_whole(answer: bytes) -> bool:
        head, found, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *([0-9]+)", head, re.IGNORECASE)
        return bool(found) and length is not None and len(body) >= int(length[1])


def code(seed: bytes) -> bytes:
    digest = hmac.new(seed, struct.pack(">Q", int(time.time()) // 30), hashlib.sha1).digest()
    offset = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[offset:offset + 4])[0] & 0x7FFFFFFF) % 10**6:06}".encode()


def put_back(path: str, text: str) -> None:
    """A peer's file, as its first login finds it."""
    if os.path.exists(path):
        os.chmod(path, 0o600)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o600)


def once(contestant: dict, number: int) -> float:
    """One transaction or request of a contestant, in milliseconds."""
    global answer
    if "request" in contestant:
        if "connection" not in contestant:
            contestant["connection"] = Request(**contestant["request"])
            contestant["connection"].time()
        return contestant["connection"].time()
    if "file" in contestant:
        put_back(*contestant["file"])
    answer = code(bytes.fromhex(contestant["totp"])) if "totp" in contestant else contestant["text"].encode()
    user = contestant["users"][number] if "users" in contestant else contestant["user"]
    return transaction(contestant["service"], user)


def main(plan: dict, n: int) -> None:
    times = {who: [] for who in plan}
    for number in range(n):
        for who, contestant in plan.items():
            times[who].append(once(contestant, number))
    print(json.dumps(times))


with open(sys.argv[1]) as file:
    main(json.load(file), int(sys.argv[2]))

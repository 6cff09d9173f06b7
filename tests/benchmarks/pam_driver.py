"""Runs on the throwaway host: times PAM transactions, by turns. Prints {who: [milliseconds]} as JSON."""

import ctypes
import hashlib
import hmac
import json
import os
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


def transaction(who: str, user: str) -> float:
    """Milliseconds of one transaction that must be granted."""
    handle = ctypes.c_void_p()
    service = f"bench-{who}".encode()
    start = time.perf_counter()
    begun = LIBPAM.pam_start(service, user.encode(), ctypes.byref(CONVERSATION), ctypes.byref(handle))
    granted = LIBPAM.pam_authenticate(handle, 0) if begun == SUCCESS else begun
    LIBPAM.pam_end(handle, granted)
    end = time.perf_counter()
    if granted != SUCCESS:
        sys.exit(f"{who}: {user} was refused: PAM code {granted}")
    return (end - start) * 1000


def code(seed: bytes) -> bytes:
    digest = hmac.new(seed, struct.pack(">Q", int(time.time()) // 30), hashlib.sha1).digest()
    offset = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[offset:offset + 4])[0] & 0x7FFFFFFF) % 10**6:06}".encode()


def put_back_users_of_pam_oath(user: str, seed: str) -> None:
    with open("/root/oath/users", "w") as file:
        file.write(f"HOTP/T30 {user} - {seed}\n")
    os.chmod("/root/oath/users", 0o600)


def main(n: int, seed: str) -> None:
    global answer
    times = {"privacyidea-host": [], "pam_oath": [], "pam_permit": []}
    for number in range(n):
        user = f"bench{number}"
        put_back_users_of_pam_oath(user, seed)
        for who, measured in times.items():
            answer = code(bytes.fromhex(seed))
            measured.append(transaction(who, user))
    print(json.dumps(times))


main(int(sys.argv[1]), sys.argv[2])

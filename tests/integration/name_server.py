"""A DNS server for tests: names whose addresses change while it serves, and programs that ask it."""
import os
import pathlib
import shutil
import socket
import struct
import threading

import pytest

A_RECORD, IN, TTL_S = 1, 1, 1
ANSWER, NO_SUCH_NAME = 0x8180, 0x8183
PORT = 53  # port that programs ask


class NameServer:
    """Answers every question for an address with `addresses`, those of IPv4 alone, or with those in `names`, where [] is no such
    name and None no answer. Others change the lists as a whole. `place`: where it listens."""

    def __init__(self, addresses=(), place=("127.0.0.1", 0)):
        self.addresses = list(addresses)
        self.names = {}
        self.silent = False  # about all names
        self.asked = set()  # names that questions were about
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(place)
        self.address = f"{place[0]}:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.socket.sendto(b"", self.socket.getsockname())  # ends the thread
        self.thread.join()
        self.socket.close()

    def serve(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            if not query:
                return
            answer = self.answer(query)
            if answer is not None:
                self.socket.sendto(answer, peer)

    def answer(self, query):
        """The answer's bytes; None: there is none."""
        name_end = query.index(b"\0", 12) + 1
        kind, = struct.unpack("!H", query[name_end:name_end + 2])
        name = name_of(query[12:name_end])
        self.asked.add(name)
        known = self.names.get(name, self.addresses)
        if known is None or self.silent:
            return None
        found = known if kind == A_RECORD else []
        exists = found or (self.names and known)
        header = query[:2] + struct.pack("!5H", ANSWER if exists else NO_SUCH_NAME, 1, len(found), 0, 0)
        # 0xc00c points at the name of the question.
        records = b"".join(struct.pack("!HHHIH", 0xC00C, A_RECORD, IN, TTL_S, 4) + socket.inet_aton(address) for address in found)
        return header + query[12:name_end + 4] + records


def name_of(labels):
    """The name that a question writes as `labels`."""
    parts, at = [], 0
    while labels[at]:
        parts.append(labels[at + 1:at + 1 + labels[at]].decode())
        at += 1 + labels[at]
    return ".".join(parts).lower()


class AskedByPrograms(NameServer):
    """A name server that the programs of `command` ask, and they alone: each has a mount namespace with a resolv.conf of its own."""

    def __init__(self, folder):
        if os.geteuid() != 0 or shutil.which("unshare") is None:
            pytest.skip("needs root: a name server at port 53, and mounts of its own")
        pid = os.getpid()
        super().__init__(place=(f"127.53.{pid // 250 % 250}.{pid % 250 + 1}", PORT))
        self.resolv = pathlib.Path(folder) / "resolv.conf"
        self.resolv.write_text(f"nameserver {self.address.split(':')[0]}\noptions timeout:5 attempts:2\n")
        self.switch = pathlib.Path(folder) / "nsswitch.conf"
        self.switch.write_text("hosts: files dns\n")

    def command(self, argv):
        """The command line that runs `argv` so. Its process is the program."""
        mounts = f"mount --bind {self.resolv} /etc/resolv.conf && mount --bind {self.switch} /etc/nsswitch.conf"
        return ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *argv]

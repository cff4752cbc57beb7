"""A DNS server for tests: one name, whose addresses change while it serves."""
import socket
import struct
import threading

A_RECORD, IN, TTL_S = 1, 1, 1
ANSWER, NO_SUCH_NAME = 0x8180, 0x8183


class NameServer:
    """Answers every question for an address with `addresses`, those of IPv4 alone. Others change the list as a whole."""

    def __init__(self, addresses):
        self.addresses = list(addresses)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
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
            self.socket.sendto(self.answer(query), peer)

    def answer(self, query):
        name_end = query.index(b"\0", 12) + 1
        kind, = struct.unpack("!H", query[name_end:name_end + 2])
        found = self.addresses if kind == A_RECORD else []
        header = query[:2] + struct.pack("!5H", ANSWER if found else NO_SUCH_NAME, 1, len(found), 0, 0)
        # 0xc00c points at the name of the question.
        records = b"".join(struct.pack("!HHHIH", 0xC00C, A_RECORD, IN, TTL_S, 4) + socket.inet_aton(address) for address in found)
        return header + query[12:name_end + 4] + records

"""The front (deploy/haproxy) before a router with its workers, for tests."""
import os
import pathlib
import signal
import socket
import subprocess

from cluster import Cluster, free_port, wait_until
from programs import channel_credentials, issue, make_authority, new_key, tls_flags

START = pathlib.Path(__file__).resolve().parents[2] / "deploy/haproxy/start.sh"
SILENCE_S, HANDSHAKE_S = 3, 1


class FrontedCluster(Cluster):
    """`folder` is a new one. `ours` in it has certificates of the roles client, prefill and front, and `foreign` that of another
    authority's client. `key` is an API key. `front_address` is where clients connect. `secured`: the servers have certificates
    too, and the front has a port for HTTP, `http_port`. `requests_per_s`: the limit of an address. The front looks clients up in
    the revocation list of `ours`, anew after reload_front()."""

    def __init__(self, folder, secured=False, requests_per_s=500):
        self.ours, self.foreign, self.socket = folder / "ours", folder / "foreign", folder / "front.sock"
        make_authority(self.ours)
        make_authority(self.foreign)
        for role in ("client", "prefill", "front", *(("router", "decode", "operator") if secured else ())):
            issue(self.ours, role)
        issue(self.foreign, "client")
        self.limits = {"BATON_FRONT_SILENCE": f"{SILENCE_S}s", "BATON_FRONT_HANDSHAKE": f"{HANDSHAKE_S}s",
                       "BATON_FRONT_PATIENCE": f"{HANDSHAKE_S}s", "BATON_FRONT_REQUESTS_PER_S": str(requests_per_s)}
        self.front_address, self.front = f"127.0.0.1:{free_port()}", None
        self.key = new_key(folder / "keys.toml", "--tenant=acme")
        self.http_port, self.router_http_port = free_port(), free_port()
        if secured:
            self.limits.update(BATON_FRONT_HTTP=f"127.0.0.1:{self.http_port}",
                               BATON_FRONT_HTTP_ROUTER=f"127.0.0.1:{self.router_http_port}")

        def flags(role):
            return tls_flags(self.ours, role) if secured else []

        super().__init__(prefill_args=flags("prefill"), decode_args=flags("decode"),
                         router_args=["--disaggregate=always", f"--front-socket={self.socket}", f"--front-uid={os.getuid()}",
                                      f"--api-keys={folder}/keys.toml", *flags("router"),
                                      *([f"--http-listen=127.0.0.1:{self.router_http_port}"] if secured else [])],
                         credentials=channel_credentials(self.ours, "operator") if secured else None)

    def __enter__(self):
        super().__enter__()
        self.front = subprocess.Popen([START, self.front_address, self.ours / "front.crt", self.ours / "ca.crt", self.socket,
                                       self.ours / "ca.crl"],
                                      env={**os.environ, **self.limits})
        wait_until(self.listens, 10, "the front listens")
        return self

    def __exit__(self, *exception):
        if self.front is not None:
            self.front.terminate()
            self.front.wait(10)
        super().__exit__(*exception)

    def reload_front(self):
        self.front.send_signal(signal.SIGUSR2)

    def listens(self):
        assert self.front.poll() is None, "the front has ended"
        with socket.socket() as probe:
            return probe.connect_ex(self.front_host_port) == 0

    @property
    def front_host_port(self):
        host, port = self.front_address.split(":")
        return host, int(port)

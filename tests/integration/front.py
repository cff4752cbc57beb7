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


class Front:
    """A front before the router that listens at the Unix socket, with the certificates in `ours`. `address` is where clients
    connect. `limits`: variables of start.sh. With `lists` it looks clients up in the revocation list of `ours`, anew after
    reload()."""

    def __init__(self, ours, router_socket, limits, lists=True):
        self.address, self.process = f"127.0.0.1:{free_port()}", None
        self.command = [START, self.address, ours / "front.crt", ours / "ca.crt", router_socket, *([ours / "ca.crl"] if lists else [])]
        self.environment = {**os.environ, **limits}

    def __enter__(self):
        self.process = subprocess.Popen(self.command, env=self.environment)
        wait_until(self.listens, 10, "the front listens")
        return self

    def __exit__(self, *exception):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)

    def reload(self):
        self.process.send_signal(signal.SIGUSR2)

    def listens(self):
        assert self.process.poll() is None, "the front has ended"
        with socket.socket() as probe:
            return probe.connect_ex(self.host_port) == 0

    @property
    def host_port(self):
        host, port = self.address.split(":")
        return host, int(port)


def front_flags(router_socket):
    """What a router behind a front is started with."""
    return [f"--front-socket={router_socket}", f"--front-uid={os.getuid()}"]


class FrontedCluster(Cluster):
    """`folder` is a new one. `ours` in it has certificates of the roles client, prefill and front, and `foreign` that of another
    authority's client. `key` is an API key. `secured`: the servers have certificates too, and the front has a port for HTTP,
    `http_port`. `requests_per_s`: the limit of an address."""

    def __init__(self, folder, secured=False, requests_per_s=500):
        self.ours, self.foreign, router_socket = folder / "ours", folder / "foreign", folder / "front.sock"
        make_authority(self.ours)
        make_authority(self.foreign)
        for role in ("client", "prefill", "front", *(("router", "decode", "operator") if secured else ())):
            issue(self.ours, role)
        issue(self.foreign, "client")
        limits = {"BATON_FRONT_SILENCE": f"{SILENCE_S}s", "BATON_FRONT_HANDSHAKE": f"{HANDSHAKE_S}s",
                  "BATON_FRONT_PATIENCE": f"{HANDSHAKE_S}s", "BATON_FRONT_REQUESTS_PER_S": str(requests_per_s)}
        self.key = new_key(folder / "keys.toml", "--tenant=acme")
        self.http_port, self.router_http_port = free_port(), free_port()
        if secured:
            limits.update(BATON_FRONT_HTTP=f"127.0.0.1:{self.http_port}",
                          BATON_FRONT_HTTP_ROUTER=f"127.0.0.1:{self.router_http_port}")
        self.front = Front(self.ours, router_socket, limits)

        def flags(role):
            return tls_flags(self.ours, role) if secured else []

        super().__init__(prefill_args=flags("prefill"), decode_args=flags("decode"),
                         router_args=["--disaggregate=always", *front_flags(router_socket),
                                      f"--api-keys={folder}/keys.toml", *flags("router"),
                                      *([f"--http-listen=127.0.0.1:{self.router_http_port}"] if secured else [])],
                         credentials=channel_credentials(self.ours, "operator") if secured else None)

    def __enter__(self):
        super().__enter__()
        self.front.__enter__()
        return self

    def __exit__(self, *exception):
        self.front.__exit__(*exception)
        super().__exit__(*exception)

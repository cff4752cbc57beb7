#!/usr/bin/python3
"""How soon a router that had no descriptor left accepts connections again.

    bench/descriptors.py [--bin build/dev] [--runs 7]

A router with mock workers is limited to the descriptors that it has (prlimit), and clients connect until many in a row were
closed at once. Then the limit is lifted, and a client tries on new connections until its call is answered. Prints the
milliseconds of each run, and their median."""
import argparse
import os
import pathlib
import resource
import socket
import statistics
import sys
import time

from serving import ROOT, mock_serving

GOAL_MS = 1000
REFUSED_IN_A_ROW = 64
PATIENCE_S = 30


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/dev", help="a build folder")
    parser.add_argument("--model", default=str(ROOT / "tests/data/tokenizer/smollm2-vocab.gguf"))
    parser.add_argument("--runs", type=int, default=7)
    return parser.parse_args()


def take_descriptors(process):
    """Lets the process have no number that it does not use now. Returns the limits from before."""
    before = resource.prlimit(process, resource.RLIMIT_NOFILE)
    used = {int(name) for name in os.listdir(f"/proc/{process}/fd")}
    resource.prlimit(process, resource.RLIMIT_NOFILE, (min(set(range(len(used) + 1)) - used), before[1]))
    return before


def is_closed(client):
    """Whether it is closed without the first byte of HTTP/2."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def connect_until_refused(port, taken):
    """Appends those that were accepted, since some descriptor had become free, to `taken`."""
    refused = 0
    while refused < REFUSED_IN_A_ROW:
        client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        if is_closed(client):
            client.close()
            refused += 1
        else:
            taken.append(client)
            refused = 0


def main():
    args = parse()
    os.environ.setdefault("BATON_BIN", str(args.bin / "bin"))
    os.environ.setdefault("BATON_STUBS", str(args.bin / "python_stubs"))
    sys.path.insert(0, str(ROOT / "tests/integration"))
    import grpc
    from stubs import pb, rpc  # modules that the build generates

    def is_answered(port):
        options = [("grpc.use_local_subchannel_pool", 1)]  # else it would wait as long as the last one that failed
        with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
            try:
                return len(rpc.GenerationServiceStub(channel).ListModels(pb.ListModelsRequest(), timeout=PATIENCE_S).models) == 1
            except grpc.RpcError:
                return False

    times_ms = []
    with mock_serving(args.bin, args.model, 2) as serving:
        process = serving.router.pid
        for _ in range(args.runs):
            if not is_answered(serving.port):
                raise SystemExit("the router answers no call:\n" + serving.log_text())
            taken = []
            limits = take_descriptors(process)
            connect_until_refused(serving.port, taken)
            if is_answered(serving.port):
                raise SystemExit("the router still accepts")
            resource.prlimit(process, resource.RLIMIT_NOFILE, limits)
            released = time.monotonic()
            while not is_answered(serving.port):
                if time.monotonic() > released + PATIENCE_S:
                    raise SystemExit(f"the router accepts nothing {PATIENCE_S} s after the release:\n" + serving.log_text())
            times_ms.append((time.monotonic() - released) * 1e3)
            for client in taken:
                client.close()
            print(f"{times_ms[-1]:.1f}", flush=True)
    print(f"median {statistics.median(times_ms):.1f} ms, at most {max(times_ms):.1f} (goal: {GOAL_MS})")


if __name__ == "__main__":
    main()

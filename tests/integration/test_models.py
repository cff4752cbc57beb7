"""What is said of model files: `baton models` as a person and a script use it, and the router's model card."""
import json
import pathlib
import shutil

import grpc

from cluster import MODEL, READY_TIMEOUT_S, Server, wait_until
from programs import assert_one_clear_line, run
from stubs import pb, rpc

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def listed(*args):
    """What `baton models --json` says of each model, by its path."""
    done = run("baton", "models", "--json", "--device=cpu", *map(str, args))
    assert done.returncode == 0, done.stderr
    return {model["path"]: model for model in json.loads(done.stdout)["models"]}


def test_every_model_of_the_architectures_tests_is_served_with_its_sizes():
    models = listed(DATA / "arch")
    assert {path for path in models if path.endswith(".gguf")} == {str(path) for path in (DATA / "arch").glob("*.gguf")}
    assert str(DATA / "arch/llama-hf") in models
    for path, model in models.items():
        assert model["served"] and "error" not in model, (path, model)
        assert model["parameters"] > 0 and model["weight_bytes"] > 0 and model["kv"][0]["bytes"] > 0, (path, model)
        assert model["architecture"] and model["tokenizer"] and model["context_length"], (path, model)
    assert models[str(DATA / "arch/gpt-oss-mxfp4.gguf")]["weight_types"][0]["type"] in ("MXFP4", "F16")


def test_smollm2_takes_what_is_known_of_it():
    (model,) = listed(MODEL, "--max-model-len=4096").values()
    assert model["architecture"] == "llama" and model["parameters"] == 134515008 and model["tokenizer"] == "gpt2 (smollm)"
    assert model["chat_template"] and model["context_length"] == 8192
    f16 = next(kv for kv in model["kv"] if kv["type"] == "f16")
    assert f16["bytes_per_token"] == 30 * 2 * 3 * 64 * 2  # layers, K and V, heads, their size, bytes
    assert f16["bytes"] == 4096 * f16["bytes_per_token"] and model["kv"][0] == f16
    (int8,) = listed(MODEL, "--kv-cache-dtype=int8").values()
    assert int8["kv"][0]["type"] == "int8" and int8["kv"][0]["bytes_per_token"] < 0.55 * f16["bytes_per_token"]


def test_quantising_takes_less_memory_and_nothing_off_the_disk():
    path = DATA / "tiny/tiny-llama-f32.gguf"
    (plain,) = listed(path).values()
    (small,) = listed(path, "--quantize=q4_0").values()
    assert small["weight_bytes"] < 0.3 * plain["weight_bytes"] and small["file_bytes"] == plain["file_bytes"]


def test_a_hostile_file_has_its_error_and_the_others_their_lines(tmp_path):
    shutil.copyfile(DATA / "tiny/tiny-llama-q4_1.gguf", tmp_path / "b.gguf")
    (tmp_path / "a.gguf").write_bytes(b"GGUF" + b"\xff" * 60)
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/config.json").write_text("{")
    done = run("baton", "models", "--device=cpu", str(tmp_path))
    assert done.returncode == 0 and done.stderr == b"", done
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 6 and lines[0].startswith("PATH") and lines[0].endswith("SERVED"), lines
    assert lines[1].startswith(f"{tmp_path}/a.gguf ") and lines[1].endswith(" no")
    assert lines[2].startswith(f"  not served: {tmp_path}/a.gguf: ")
    assert lines[3].startswith(f"{tmp_path}/b.gguf ") and lines[3].endswith(" yes")
    assert "config.json" in lines[5]
    refused = run("baton-decode-worker", f"--model={tmp_path}/a.gguf", "--listen=127.0.0.1:0", "--log-level=error")
    assert lines[2].removeprefix("  not served: ") in refused.stderr.decode()


def test_a_path_that_is_not_there_or_holds_nothing_is_named(tmp_path):
    assert_one_clear_line(run("baton", "models", str(tmp_path / "nowhere")), "nowhere", "does not exist")
    assert_one_clear_line(run("baton", "models", str(tmp_path)), str(tmp_path), "3 levels")
    assert_one_clear_line(run("baton", "models"), "name a GGUF file")
    done = run("baton", "models", "--device=cpu", str(DATA / "tiny/tiny-llama-q4_1.gguf"), str(tmp_path))
    assert_one_clear_line(done, str(tmp_path))
    assert "tiny-llama-q4_1.gguf" in done.stdout.decode(), "what is there is told"


def test_the_model_card_has_the_type_in_which_a_worker_holds_the_weights():
    model = DATA / "tiny/tiny-llama-f32.gguf"
    worker = Server("baton-decode-worker", f"--model={model}", "--quantize=q8_0", "--threads=1", "--num-kv-blocks=64")
    router = Server("baton-router", f"--model={model}", f"--decode={worker.address}")
    try:
        for server in (worker, router):
            server.start()
        wait_until(lambda: router.serving("all_workers"), READY_TIMEOUT_S, "a router that knows its worker")
        with grpc.insecure_channel(router.address) as channel:
            (card,) = rpc.GenerationServiceStub(channel).ListModels(pb.ListModelsRequest()).models
        assert card.dtype == "Q8_0", "not F32, as the file is"
    finally:
        for server in (worker, router):
            server.kill()

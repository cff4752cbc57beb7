// The runtime of a model file: backend, weights, KV cache, engine and tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/make_backend.h"
#include "common/engine/engine.h"
#include "common/gguf/quantisation.h"
#include "common/tokenizer/tokenizer.h"
#include "common/worker/device_memory.h"
#include "common/worker/load_times.h"

namespace baton {

struct ModelRuntimeOptions {
  std::string model;         // path of a GGUF file or a Hugging Face folder
  std::string model_sha256;  // what its SHA-256 must be, in hexadecimal; empty: not checked
  std::string draft_model;   // path of the draft model, as `model`; empty: there is none
  Quantisation quantisation = Quantisation::kNone;  // for the model, not the draft
  BackendOptions backend;
  // num_kv_blocks, prefix_identity and end_of_generation_ids are found out by LoadModelRuntime.
  EngineOptions engine;
  MemoryOptions memory;
  // Called with the fraction done, 0 to 1, while the file is checked, the weights load and their
  // identity is made.
  std::function<void(double)> progress = nullptr;
};

// Checks what needs neither file nor device. INVALID_ARGUMENT names the flag.
absl::Status CheckModelRuntimeOptions(const ModelRuntimeOptions& options);

// Thread rule: immutable except the engine, which has a thread rule of its own.
struct ModelRuntime {
  std::unique_ptr<Backend> backend;  // outlives the engine
  std::unique_ptr<Tokenizer> tokenizer;
  std::string name;                 // the file's general.name; without one the file's own name
  std::string weights_type;         // the type that most bytes of the weights have, such as "Q4_1"
  uint64_t draft_weight_bytes = 0;  // bytes of the draft model's tensors; 0: there is none
  std::string weights_digest;       // QuantisedDigest of GgufFile::PiecewiseDigest, 32 bytes
  std::string tokenizer_digest;     // Tokenizer::digest; the router compares it with its own
  std::string metadata_digest;      // GgufFile::MetadataDigest; so is this
  std::string sample_digest;        // QuantisedDigest of GgufFile::SampleDigest; and this
  LoadTimes times;                  // how long each step of LoadModelRuntime took
  std::unique_ptr<Engine> engine;
};

// Loads the model file and makes its engine. Where `memory` gives no size of the KV cache, it is,
// in the host's memory, 1 GiB, or room for two sequences of the longest length if that is more, but
// at most a quarter of the free memory. In a device's memory it is what gpu_memory_utilization
// leaves once the weights are loaded and the largest step has been run (device_memory.h). Errors
// name the file or the flag, and the remedy. A model whose file shows that it does not fit a device
// is refused before it is loaded. A draft model's weights, scratch and cache come out of the same
// memory: its cache has as many blocks as the model's, and of as many tokens.
absl::StatusOr<std::unique_ptr<ModelRuntime>> LoadModelRuntime(const ModelRuntimeOptions& options);

// Checks what can be checked of a model without a backend: the file is whole, its architecture and
// tokenizer are supported, and the options fit the model and each other. Reads the metadata, and
// the weights only for `model_sha256`. Errors are those of LoadModelRuntime.
absl::Status CheckModel(const ModelRuntimeOptions& options);

// The number of blocks that the options give a KV cache in host memory, and as many blocks of
// `draft_block_bytes` beside it. `blocks_of_longest`: those of the longest sequence. `free_memory_bytes` is 0 if it is unknown. RESOURCE_EXHAUSTED if
// there are fewer than two blocks (one to begin with and one of head-room).
absl::StatusOr<int> KvBlockCount(const MemoryOptions& options, const KvLayout& layout,
                                 int64_t blocks_of_longest, uint64_t free_memory_bytes,
                                 uint64_t draft_block_bytes = 0);

}  // namespace baton

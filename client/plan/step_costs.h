// Estimates the time of an engine's step from measurements of `baton bench engine --json`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// What a step computes.
struct StepShape {
  int decodes = 0;             // sequences of which it computes one token
  int64_t decode_context = 0;  // tokens in the KV caches of those sequences together
  int chunk_rows = 0;          // tokens of prompts
  double chunk_keys = 0;       // tokens that those rows attend to, summed over the rows

  // Adds a chunk of `rows` rows behind `depth` tokens of its prompt.
  void AddChunk(int rows, int depth) {
    chunk_rows += rows;
    chunk_keys += rows * (depth + (rows + 1) / 2.0);
  }
};

// A machine's costs of steps, and the file's other facts about the model there.
//
// Chunks take a time for the step, one for each row and one for each key that a row attends to: the
// three that fit the measured prefills best, none of them negative. Decodes take, at each measured
// batch, a time and one for each token of the mean context; between two batches both are
// interpolated, beyond the last one they go on as between the last two. A step with both takes the
// decodes' time and its chunks' rows and keys: it reads the weights once.
//
// Immutable.
class StepCosts {
 public:
  struct Facts {
    std::string model{};
    std::string device{};  // "cpu" or "cuda"
    int layers = 0;
    int64_t kv_bytes_per_token = 0;  // K and V of all layers
    int block_size = 0;              // tokens of a KV block
    int max_num_batched_tokens = 0;  // most tokens of one prefill pass
  };
  struct ChunkCosts {
    double step_s = 0, row_s = 0, key_s = 0;
  };
  struct DecodeCosts {
    int batch = 0;
    double step_s = 0;           // with empty KV caches
    double context_token_s = 0;  // for each token of the sequences' mean context
  };

  // `json` is the text of the file, `name` its name in errors. INVALID_ARGUMENT names the field and
  // says how to measure what is missing.
  static absl::StatusOr<StepCosts> Parse(const std::string& json, const std::string& name);
  // REQUIRES: `decodes` has two batches or more, in ascending order.
  StepCosts(Facts facts, const ChunkCosts& chunks, std::vector<DecodeCosts> decodes);

  // Nanoseconds of the step; at least 1. REQUIRES: it computes something.
  int64_t StepNanoseconds(const StepShape& shape) const;

  const Facts& facts() const { return facts_; }
  const ChunkCosts& chunks() const { return chunks_; }
  const std::vector<DecodeCosts>& decodes() const { return decodes_; }

 private:
  double DecodeSeconds(int batch, double mean_context) const;

  Facts facts_;
  ChunkCosts chunks_;
  std::vector<DecodeCosts> decodes_;  // by batch
};

// A prefill that was measured: `tokens` behind `depth` tokens, in chunks of at most so many.
struct MeasuredPrefill {
  int tokens = 0;
  int depth = 0;
  double seconds = 0;
};
// The costs that fit the prefills best, relative to the time of each. REQUIRES: there is one.
StepCosts::ChunkCosts FitChunks(const std::vector<MeasuredPrefill>& prefills,
                                int max_num_batched_tokens);

// A decode step that was measured.
struct MeasuredDecode {
  int batch = 0;
  double context = 0;  // tokens in each sequence's KV cache, on average over the steps
  double step_s = 0;
};
// The costs at each batch, in ascending order of batches.
std::vector<StepCosts::DecodeCosts> FitDecodes(const std::vector<MeasuredDecode>& decodes);

}  // namespace baton

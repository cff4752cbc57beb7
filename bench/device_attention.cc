// Times a device's attention alone over one layer of a paged KV cache of random numbers, which is
// larger than the device's own caches, and compares it with the device's rate of copies.
//
//   baton-bench-device-attention [--device cuda] [--batch 64] [--context 8192]
//                                [--prompts 8192,16384] [--repetitions 20]
//
// Prints JSON. The shape is llama-3.1-8b's: 32 query heads, 8 KV heads of 128 dimensions, bf16.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/backend/cuda/cuda_peaks.h"
#include "common/backend/make_backend.h"
#include "common/base/clock.h"
#include "common/base/float_types.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"

namespace baton {
namespace {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kHeadDim = 128;
constexpr int kBlockSize = 32;

template <class T>
T OrExit(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  WriteErrorLine("baton-bench-device-attention", value.status().ToString());
  std::exit(2);
}

// Fills device memory with bf16 numbers between -1 and 1, by copies of one piece.
void FillRandom(Backend& backend, BackendBuffer& memory) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<uint16_t> piece(std::min<size_t>(memory.size_bytes() / 2, size_t{4} << 20));
  for (uint16_t& value : piece) value = F32ToBf16(uniform(random));
  for (size_t done = 0; done < memory.size_bytes();) {
    const size_t bytes = std::min(piece.size() * 2, memory.size_bytes() - done);
    backend.Upload(piece.data(), bytes, memory.data() + done);
    done += bytes;
  }
}

// A pass over `sequences` sequences of `tokens` tokens each, with `rows` query rows of each.
class AttentionPass {
 public:
  AttentionPass(Backend& backend, int sequences, int tokens, int rows)
      : backend_(backend), rows_(sequences * rows), columns_(kHeads * kHeadDim) {
    const int blocks = (tokens + kBlockSize - 1) / kBlockSize;
    const size_t half = size_t{kBlockSize} * kKvHeads * kHeadDim * sizeof(uint16_t);
    blocks_ = OrExit(backend.Allocate(static_cast<size_t>(sequences * blocks) * 2 * half));
    queries_ = OrExit(backend.Allocate(QueryBytes()));
    out_ = OrExit(backend.Allocate(QueryBytes()));
    FillRandom(backend, blocks_);
    FillQueries();
    table_.resize(static_cast<size_t>(sequences) * static_cast<size_t>(blocks));
    for (size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<int32_t>(i);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(2));
    for (int s = 0; s < sequences; ++s) {
      batch_.sequences.push_back(
          {s * rows, rows, tokens - rows, table_.data() + s * blocks, blocks});
    }
    view_ = {.blocks = blocks_.data(),
             .block_bytes = 2 * half,
             .keys_offset = 0,
             .values_offset = half,
             .block_size = kBlockSize,
             .kv_heads = kKvHeads,
             .head_dim = kHeadDim,
             .dtype = KvType::kBf16};
  }

  // The median time of one attention, in seconds, where `layers` of them are enqueued together.
  double Seconds(int repetitions, int layers) {
    const auto tensor = [&](const BackendBuffer& memory) {
      return Tensor{reinterpret_cast<float*>(memory.data()), rows_, columns_};
    };
    std::vector<double> seconds;
    for (int i = 0; i <= repetitions; ++i) {
      backend_.BeginPass({.batch = &batch_});
      backend_.Attention(rule_, tensor(queries_), view_,
                         tensor(out_));  // makes the plan that all use
      backend_.Synchronize();
      const absl::Time start = SteadyNow();
      for (int layer = 0; layer < layers; ++layer) {
        backend_.Attention(rule_, tensor(queries_), view_, tensor(out_));
      }
      backend_.Synchronize();
      if (i > 0) seconds.push_back(absl::ToDoubleSeconds(SteadyNow() - start) / layers);
    }
    std::nth_element(seconds.begin(), seconds.begin() + repetitions / 2, seconds.end());
    return seconds[static_cast<size_t>(repetitions / 2)];
  }

 private:
  size_t QueryBytes() const {
    return static_cast<size_t>(rows_) * static_cast<size_t>(columns_) * sizeof(float);
  }
  void FillQueries() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(QueryBytes() / sizeof(float));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = i < 65536 ? normal(random) : values[i % 65536];
    backend_.Upload(values.data(), QueryBytes(), queries_.data());
  }

  Backend& backend_;
  const int rows_;
  const int columns_;
  BackendBuffer blocks_, queries_, out_;
  std::vector<int32_t> table_;
  Batch batch_;
  KvLayerView view_;
  AttentionRule rule_ = {.scale = 1 / std::sqrt(static_cast<float>(kHeadDim))};
};

nlohmann::ordered_json Decode(Backend& backend, int batch, int context, int repetitions,
                              double copy_gb_s) {
  const double seconds = AttentionPass(backend, batch, context, 1).Seconds(repetitions, 8);
  const double bytes = 2.0 * batch * context * kKvHeads * kHeadDim * sizeof(uint16_t);
  nlohmann::ordered_json row = {{"test", "decode"},
                                {"batch", batch},
                                {"context", context},
                                {"microseconds", seconds * 1e6},
                                {"gb_s", bytes / seconds / 1e9}};
  if (copy_gb_s > 0) row["share_of_copy"] = bytes / seconds / 1e9 / copy_gb_s;
  return row;
}

nlohmann::ordered_json Prefill(Backend& backend, int tokens, int repetitions) {
  const double seconds = AttentionPass(backend, 1, tokens, tokens).Seconds(repetitions, 2);
  const double pairs = 0.5 * tokens * (tokens + 1.0);
  return {{"test", "prefill"},
          {"tokens", tokens},
          {"microseconds", seconds * 1e6},
          {"tflop_s", pairs * kHeads * kHeadDim * 4 / seconds / 1e12}};
}

int Main(int argc, char** argv) {
  std::string device = "cuda";
  int batch = 64;
  int context = 8192;
  int repetitions = 20;
  std::vector<int> prompts = {8192, 16384};
  CLI::App app("Times a device's attention alone.", "baton-bench-device-attention");
  app.add_option("--device", device, "cpu, cuda, cuda:N");
  app.add_option("--batch", batch, "sequences that decode")->check(CLI::Range(1, 4096));
  app.add_option("--context", context, "their tokens")->check(CLI::Range(1, 1 << 20));
  app.add_option("--prompts", prompts, "tokens of the prefills")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--repetitions", repetitions)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  const std::unique_ptr<Backend> backend = OrExit(MakeBackend({.device = device}));
  double copy_gb_s = 0;
  if (!backend->host_memory()) copy_gb_s = OrExit(MeasureCudaPeaks({})).copy_gb_s;
  nlohmann::ordered_json report = {{"device", backend->Description()}};
  if (copy_gb_s > 0) report["copy_gb_s"] = copy_gb_s;
  report["results"].push_back(Decode(*backend, batch, context, repetitions, copy_gb_s));
  for (const int tokens : prompts)
    report["results"].push_back(Prefill(*backend, tokens, repetitions));
  WriteOutput(report.dump(2) + "\n");
  return 0;
}

}  // namespace
}  // namespace baton

// NOLINTNEXTLINE(bugprone-exception-escape): what the figures' JSON throws only when broken
int main(int argc, char** argv) { return baton::Main(argc, argv); }

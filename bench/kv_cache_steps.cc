// Prints as CSV the time of each decode step with the KV cache and without it, where every step
// computes all tokens again.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/backend/make_backend.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {
namespace {

constexpr int kBlockSize = 32;

class Bench {
 public:
  Bench(Transformer& model, KvCache& cache) : model_(model), cache_(cache) {
    block_table_.resize(static_cast<size_t>(cache.block_count()));
    std::iota(block_table_.begin(), block_table_.end(), 0);
    logits_.resize(static_cast<size_t>(model.config().vocab_size));
  }

  // The time of one pass in milliseconds, and the next token by greedy sampling.
  struct Step {
    double milliseconds;
    int32_t token;
  };
  // The fastest of three passes over `tokens` at positions from `first_position` on. Repeating a
  // pass writes the same bytes.
  Step Run(const std::vector<int32_t>& tokens, int first_position) {
    Step best = RunOnce(tokens, first_position);
    for (int repeat = 1; repeat < 3; ++repeat) {
      best.milliseconds = std::min(best.milliseconds, RunOnce(tokens, first_position).milliseconds);
    }
    return best;
  }

 private:
  Step RunOnce(const std::vector<int32_t>& tokens, int first_position) {
    const int count = static_cast<int>(tokens.size());
    Batch batch{.tokens = {},
                .sequences = {{0, count, first_position, block_table_.data(),
                               cache_.layout().BlocksFor(first_position + count)}},
                .logits_rows = {count - 1}};
    for (const int32_t id : tokens) batch.tokens.push_back(InputToken::Id(id));
    const auto start = std::chrono::steady_clock::now();
    model_.Forward(
        batch, cache_, [](int) {}, absl::MakeSpan(logits_));
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    const auto best = std::max_element(logits_.begin(), logits_.end());
    return {elapsed.count(), static_cast<int32_t>(best - logits_.begin())};
  }

  Transformer& model_;
  KvCache& cache_;
  std::vector<int32_t> block_table_;
  std::vector<float> logits_;
};

constexpr char kProgram[] = "baton-bench-kv-cache";

int Fail(const absl::Status& status) {
  WriteErrorLine(kProgram, status.ToString());
  return 2;
}

int Main(const std::string& path, int steps, int threads, int stride, const std::string& isa) {
  auto file = GgufFile::Open(path);
  if (!file.ok()) return Fail(file.status());
  auto backend = MakeBackend({.device = "cpu", .threads = threads, .cpu_isa = isa});
  if (!backend.ok()) return Fail(backend.status());
  const auto load_start = std::chrono::steady_clock::now();
  auto model = Transformer::Load(*file, **backend, [](double) {});
  if (!model.ok()) return Fail(model.status());
  const std::chrono::duration<double> load = std::chrono::steady_clock::now() - load_start;
  KvLayout layout = (*model)->MakeKvLayout(kBlockSize, KvType::kF16);
  layout.groups = {};
  auto cache = KvCache::Create(**backend, layout, layout.BlocksFor(steps + 1));
  if (!cache.ok()) return Fail(cache.status());
  WriteNotice(absl::StrFormat("%s, loaded in %.2f s\n", (*backend)->Description(), load.count()));

  Bench bench(**model, **cache);
  std::vector<int32_t> tokens = {1 % (*model)->config().vocab_size};
  std::vector<double> cached_ms;
  double total_ms = 0;
  for (int step = 0; step < steps; ++step) {
    const Bench::Step result = bench.Run({tokens.back()}, step);
    cached_ms.push_back(result.milliseconds);
    total_ms += result.milliseconds;
    tokens.push_back(result.token);
  }
  WriteOutput("tokens,cached_ms,recomputed_ms\n");
  double recomputed_ms = 0;
  for (int step = 0; step < steps; step += stride) {
    const std::vector<int32_t> all(tokens.begin(), tokens.begin() + step + 1);
    const Bench::Step result = bench.Run(all, 0);
    if (result.token != tokens[static_cast<size_t>(step) + 1]) {
      WriteErrorLine(kProgram,
                     absl::StrFormat("step %d: cached and recomputed tokens differ", step));
      return 1;
    }
    recomputed_ms = result.milliseconds;
    WriteOutput(absl::StrFormat("%d,%.3f,%.3f\n", step + 1, cached_ms[static_cast<size_t>(step)],
                                recomputed_ms));
  }
  WriteNotice(absl::StrFormat(
      "decode %.1f tokens/s; recomputing the last step's tokens %.1f tokens/s\n",
      1000 * steps / total_ms, 1000.0 * (steps - (steps - 1) % stride) / recomputed_ms));
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  if (argc < 2) {
    baton::WriteErrorLine(baton::kProgram,
                          "usage: MODEL.gguf [STEPS] [THREADS] [STRIDE] [CPU_ISA]");
    return 2;
  }
  const auto number = [&](int index, int otherwise) {
    return argc > index ? std::max(1, std::atoi(argv[index])) : otherwise;
  };
  return baton::Main(argv[1], number(2, 512), number(3, 2), number(4, 1),
                     argc > 5 ? argv[5] : "auto");
}

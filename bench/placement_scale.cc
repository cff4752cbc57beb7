// Times what a router does that may grow with the number of workers: taking in changes of their
// prefix pages, finding who holds a prompt's beginning, and choosing workers for a request.
//
// A benchmark's argument: the number of workers, half of them for prefill.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/base/prefix_hash.h"
#include "router/placement/placement.h"
#include "router/placement/prefix_index.h"
#include "router/placement/ready_workers.h"

namespace baton {
namespace {

constexpr int kSystemTokens = 512;    // at a prompt's begin, which all workers hold
constexpr int kPromptTokens = 2048;   // one worker holds all of it
constexpr size_t kChangedPages = 64;  // pages that a message adds, and also removes

std::vector<int32_t> Prompt() {
  std::vector<int32_t> ids(kPromptTokens);
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}

// The names of the pages of the first `tokens` tokens.
std::vector<uint64_t> Pages(const std::vector<int32_t>& ids, int tokens) {
  std::vector<uint64_t> pages;
  Hash128 link = PrefixRoot("model");
  for (size_t at = 0; at < static_cast<size_t>(tokens); at += kPrefixPageTokens) {
    link = PrefixLink(link, absl::MakeConstSpan(ids).subspan(at, kPrefixPageTokens), "");
    pages.push_back(link.high);
  }
  return pages;
}

// Page `page` of worker `worker`, a name that looks like a hash.
uint64_t OwnPage(uint32_t worker, uint64_t page) {
  return (uint64_t{worker} << 32 | page) * 0x9E3779B97F4A7C15u;
}

// Each worker holds its part of what the index takes, the system prompt among it.
void Fill(PrefixIndex& index, uint32_t workers, const std::vector<uint64_t>& system) {
  const uint64_t part = PrefixIndex::Bounds().pages / workers;
  for (uint32_t worker = 0; worker < workers; ++worker) {
    index.Apply(worker, {.version = 1, .full = true, .added = system});
  }
  for (uint32_t worker = 0; worker < workers; ++worker) {
    std::vector<uint64_t> pages;
    for (uint64_t page = system.size(); page < part; ++page) pages.push_back(OwnPage(worker, page));
    index.Apply(worker, {.version = 2, .added = pages});
  }
}

void ApplyPages(benchmark::State& state) {
  const auto workers = static_cast<uint32_t>(state.range(0));
  PrefixIndex index;
  const uint64_t part = PrefixIndex::Bounds().pages / workers;
  Fill(index, workers, {});
  std::vector<uint64_t> versions(workers, 2), first(workers, 0);
  uint32_t worker = 0;
  int64_t pages = 0;
  for (auto _ : state) {
    std::vector<uint64_t> added, removed;
    const size_t changed = std::min<size_t>(kChangedPages, part / 2);
    for (size_t i = 0; i < changed; ++i) {
      removed.push_back(OwnPage(worker, first[worker] + i));
      added.push_back(OwnPage(worker, first[worker] + part + i));
    }
    first[worker] += changed;
    // What is removed makes room for what is added.
    index.Apply(worker, {.version = ++versions[worker], .removed = removed});
    index.Apply(worker, {.version = ++versions[worker], .added = added});
    pages += static_cast<int64_t>(2 * changed);
    worker = (worker + 1) % workers;
  }
  state.SetItemsProcessed(pages);
}
BENCHMARK(ApplyPages)->Arg(10)->Arg(100)->Arg(1000)->Arg(10000);

void FindHolders(benchmark::State& state) {
  const auto workers = static_cast<uint32_t>(state.range(0));
  const std::vector<int32_t> ids = Prompt();
  PrefixIndex index;
  Fill(index, workers, Pages(ids, kSystemTokens));
  index.Forget(0);
  index.Apply(0, {.version = 1, .full = true, .added = Pages(ids, kPromptTokens)});
  const Hash128 root = PrefixRoot("model");
  for (auto _ : state) benchmark::DoNotOptimize(index.Find(root, ids, ""));
}
BENCHMARK(FindHolders)->Arg(10)->Arg(100)->Arg(1000)->Arg(10000);

void ChooseWorkers(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<WorkerSnapshot> workers(count, {.identity = "model",
                                              .max_model_len = 8192,
                                              .block_size = 32,
                                              .total_blocks = 1000,
                                              .kv_bytes_per_token = 131072,
                                              .free_blocks = 900,
                                              .prefill_tokens_per_second = 30000});
  ReadyWorkers ready;
  for (size_t i = 0; i < count; ++i) {
    workers[i].id = i + 1;
    ready.Add(i % 2 == 0 ? ReadyWorkers::Role::kPrefill : ReadyWorkers::Role::kDecode, workers[i]);
  }
  const WorkerNeeds needs{.prompt_tokens = 1000, .max_total_tokens = 1200};
  uint64_t turn = 0;
  for (auto _ : state) {
    const auto candidates = ready.Choose(needs, {}, {}, ++turn);
    benchmark::DoNotOptimize(Place(needs, candidates.prefill, candidates.decode, {}, turn));
  }
}
BENCHMARK(ChooseWorkers)->Arg(10)->Arg(100)->Arg(1000)->Arg(10000);

}  // namespace
}  // namespace baton

BENCHMARK_MAIN();

#include "tests/support/exactness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

constexpr int kThreads[] = {1, 2, 3, 4};
constexpr int kBlockSizes[] = {16, 32, 64};

const char* ScheduleName(Schedule schedule) {
  switch (schedule) {
    case Schedule::kAtOnce:
      return "at once";
    case Schedule::kOneByOne:
      return "one by one";
    case Schedule::kAscending:
      return "in ascending chunks";
    case Schedule::kPages:
      return "in chunks of 16";
    case Schedule::kWithMates:
      return "with mates in random chunks";
  }
  return "";
}

// The size of the schedule's chunk number `index`.
size_t ChunkSize(Schedule schedule, size_t index, size_t tokens, std::mt19937& random) {
  switch (schedule) {
    case Schedule::kAtOnce:
      return tokens;
    case Schedule::kOneByOne:
      return 1;
    case Schedule::kAscending:
      return index + 1;
    case Schedule::kPages:
      return 16;
    case Schedule::kWithMates:
      return 1 + random() % (tokens / 4 + 1);
  }
  return 1;
}

// The fields of a way as numbers, of which the pairs are made.
std::array<int, 4> Fields(const Way& way) {
  return {static_cast<int>(way.isa), way.threads, way.block_size, static_cast<int>(way.schedule)};
}

// A pair of values: (field, value, other field, its value).
using Pair = std::tuple<size_t, int, size_t, int>;
std::vector<Pair> PairsOf(const Way& way) {
  const std::array<int, 4> fields = Fields(way);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < fields.size(); ++i) {
    for (size_t j = i + 1; j < fields.size(); ++j) pairs.emplace_back(i, fields[i], j, fields[j]);
  }
  return pairs;
}

}  // namespace

bool SameRunner(const Way& a, const Way& b) {
  return a.isa == b.isa && a.threads == b.threads && a.block_size == b.block_size;
}

std::string Describe(const Way& way) {
  return absl::StrCat(CpuIsaName(way.isa), ", ", way.threads, " threads, blocks of ",
                      way.block_size, ", ", ScheduleName(way.schedule));
}

std::vector<Way> AllWays() {
  std::vector<Way> ways;
  for (const CpuIsa isa : InstructionSets()) {
    for (const int threads : kThreads) {
      for (const int block_size : kBlockSizes) {
        for (const Schedule schedule : kSchedules) {
          ways.push_back({isa, threads, block_size, schedule});
        }
      }
    }
  }
  return ways;
}

std::vector<Way> PairwiseWays() {
  std::vector<Way> all = AllWays();
  std::mt19937 random(1);
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random() % i]);
  std::set<Pair> open;
  for (const Way& way : all) {
    for (const Pair& pair : PairsOf(way)) open.insert(pair);
  }
  const auto gain = [&](const Way& way) {
    const std::vector<Pair> pairs = PairsOf(way);
    return std::count_if(pairs.begin(), pairs.end(),
                         [&](const Pair& p) { return open.contains(p); });
  };
  std::vector<Way> sample;
  while (!open.empty()) {
    sample.push_back(*std::max_element(
        all.begin(), all.end(), [&](const Way& a, const Way& b) { return gain(a) < gain(b); }));
    for (const Pair& pair : PairsOf(sample.back())) open.erase(pair);
  }
  return sample;
}

Outcome Outcome::Head(int tokens, int vocab_size) const {
  return {{logits.begin(), logits.begin() + int64_t{tokens} * vocab_size}, {}};
}

Outcome Outcome::Then(const Outcome& next) const {
  Outcome both{logits, next.kv};
  both.logits.insert(both.logits.end(), next.logits.begin(), next.logits.end());
  return both;
}

std::string FirstDifference(const Outcome& expected, const Outcome& actual, int vocab_size) {
  if (expected.logits.size() != actual.logits.size()) return "another number of logits";
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    if (std::memcmp(&expected.logits[i], &actual.logits[i], sizeof(float)) == 0) continue;
    const size_t vocab = static_cast<size_t>(vocab_size);
    return absl::StrCat("logit of token ", i / vocab, ", id ", i % vocab, " is ", actual.logits[i],
                        " instead of ", expected.logits[i]);
  }
  if (expected.kv.size() != actual.kv.size()) return "another number of KV bytes";
  const auto kv = std::mismatch(expected.kv.begin(), expected.kv.end(), actual.kv.begin());
  if (kv.first == expected.kv.end()) return "";
  return absl::StrCat("KV byte ", kv.first - expected.kv.begin(), " of ", expected.kv.size());
}

bool AllFinite(const Outcome& outcome) {
  return std::all_of(outcome.logits.begin(), outcome.logits.end(),
                     [](float logit) { return std::isfinite(logit); });
}

int Distinct(const Outcome& outcome) {
  return static_cast<int>(std::set<float>(outcome.logits.begin(), outcome.logits.end()).size());
}

std::vector<int32_t> RandomTokens(int count, int vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
  }
  return tokens;
}

ModelRunnerOptions With(ModelRunnerOptions options, const Way& way) {
  options.backend.device = "cpu";
  options.backend.cpu_isa = CpuIsaName(way.isa);
  options.backend.threads = way.threads;
  options.block_size = way.block_size;
  return options;
}

Outcome Compute(ModelRunner& runner, int sequence, const std::vector<int32_t>& tokens,
                Schedule schedule) {
  constexpr int kMates = 3;
  std::mt19937 random(static_cast<uint32_t>(tokens.size()));
  std::vector<int> mates;
  for (int i = 0; i < (schedule == Schedule::kWithMates ? kMates : 0); ++i) {
    mates.push_back(runner.AddSequence());
  }
  const size_t vocab = static_cast<size_t>(runner.vocab_size());
  Outcome outcome;
  size_t chunks = 0;
  for (size_t first = 0; first < tokens.size(); ++chunks) {
    const size_t size =
        std::min(ChunkSize(schedule, chunks, tokens.size(), random), tokens.size() - first);
    std::vector<ModelRunner::Rows> rows;
    size_t rows_before = 0;
    const size_t place = random() % (mates.size() + 1);
    for (size_t i = 0; i <= mates.size(); ++i) {
      if (i == place) {
        rows.push_back({sequence,
                        {tokens.begin() + static_cast<int64_t>(first),
                         tokens.begin() + static_cast<int64_t>(first + size)}});
        continue;
      }
      const int count = 1 + static_cast<int>(random() % 11);
      rows.push_back({mates[i - (i > place ? 1 : 0)],
                      RandomTokens(count, runner.vocab_size(), static_cast<uint32_t>(random()))});
      if (i < place) rows_before += static_cast<size_t>(count);
    }
    const std::vector<float> logits = runner.Forward(rows);
    const auto own = logits.begin() + static_cast<int64_t>(rows_before * vocab);
    outcome.logits.insert(outcome.logits.end(), own, own + static_cast<int64_t>(size * vocab));
    first += size;
  }
  for (const int mate : mates) runner.Release(mate);
  outcome.kv = runner.KvBytes(sequence);
  return outcome;
}

}  // namespace baton

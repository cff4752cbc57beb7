// The requests of one class of a load, and when they arrive: drawn from a seed.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/v1/generation.pb.h"

namespace baton {

struct LoadClass {
  std::string name = "all";
  // One of the two:
  double rate = 0;      // requests/s, a Poisson process: they arrive whatever became of the others
  int concurrency = 0;  // streams; when one ends the next is sent
  int input_tokens = 64;
  int output_tokens = 16;
  std::string trace{};  // file of lengths and shared prefixes, in place of the two
};

// "long:rate=0.5,input=2000,output=2", "steady:concurrency=8,trace=FILE". The error names the part.
absl::StatusOr<LoadClass> ParseLoadClass(const std::string& text);

// Not thread-safe. Equal classes and seeds give equal requests at equal times.
class LoadSource {
 public:
  // Prompts are of token ids below `vocab_size`. The error names the trace.
  static absl::StatusOr<LoadSource> Create(const LoadClass& load, uint32_t vocab_size,
                                           uint64_t seed);

  // Since the load began. Each is later than the one before. REQUIRES: a rate.
  absl::Duration NextArrival();
  // No two prompts have a common beginning, but for what the trace says.
  v1::GenerateRequest NextRequest();

 private:
  // A line of a trace. Each of its pages is of 8 tokens, the same wherever it occurs; what the
  // prompt has beyond them is its own.
  struct Lengths {
    int input_tokens = 0;
    int output_tokens = 0;
    std::vector<uint32_t> pages{};
  };
  LoadSource(double rate, uint32_t vocab_size, uint64_t seed, std::vector<Lengths> lengths);
  static absl::StatusOr<std::vector<Lengths>> ReadTrace(const std::string& path);

  double rate_;
  uint32_t vocab_size_;
  uint64_t seed_;
  std::vector<Lengths> lengths_;  // in turn
  size_t turn_ = 0;
  absl::Duration arrival_ = absl::ZeroDuration();
  std::mt19937_64 arrivals_, tokens_;
};

}  // namespace baton

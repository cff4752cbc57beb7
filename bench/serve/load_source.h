// The requests of one class of a load and their arrival times, drawn from a seed.
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
  double rate = 0;      // requests/s of a Poisson process: no request waits for another's answer
  int concurrency = 0;  // instead of a rate: open streams; when one ends the next is sent
  int input_tokens = 64;
  int output_tokens = 16;
  std::string trace{};  // path of a file of lengths and shared prefixes; empty: the lengths above
};

// Parses a class such as "long:rate=0.5,input=2000,output=2" or "steady:concurrency=8,trace=FILE".
// INVALID_ARGUMENT names the field.
absl::StatusOr<LoadClass> ParseLoadClass(const std::string& text);

// A source of requests. Equal classes and seeds give equal requests at equal times. Not
// thread-safe.
class LoadSource {
 public:
  // Prompts have token ids below `vocab_size`. An error names the field of the class or the trace.
  static absl::StatusOr<LoadSource> Create(const LoadClass& load, uint32_t vocab_size,
                                           uint64_t seed);

  // The next arrival time, counted from the beginning of the load. REQUIRES: the class has a rate.
  absl::Duration NextArrival();
  // The next request. Prompts share no prefix but the pages of the trace.
  v1::GenerateRequest NextRequest();

 private:
  // One line of a trace. A page number stands for 8 tokens, which are the same wherever the number
  // occurs; the rest of the prompt is unique.
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
  std::vector<Lengths> lengths_;  // lengths of the requests, used in turn
  size_t turn_ = 0;
  absl::Duration arrival_ = absl::ZeroDuration();
  std::mt19937_64 arrivals_, tokens_;
};

}  // namespace baton

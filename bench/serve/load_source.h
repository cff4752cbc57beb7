// The requests of one class of a load and their times, drawn from a seed or read in a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/serve/target/load_target.h"
#include "bench/serve/trace_file.h"

namespace baton {

struct LoadClass {
  std::string name = "all";
  // One of the two; neither, with a trace that has times: the trace's own times.
  double rate = 0;      // requests/s of a Poisson process: no request waits for another's answer
  int concurrency = 0;  // instead of a rate: open streams; when one ends the next is sent
  int input_tokens = 64;
  int output_tokens = 16;
  // Path of a trace, whose lengths and shared prefixes hold; empty: the lengths above.
  std::string trace{};

  // Whether requests are due at times of their own.
  bool open_loop() const { return concurrency == 0; }
};

// Parses a class such as "long:rate=0.5,input=2000,output=2" or "steady:concurrency=8,trace=FILE".
// INVALID_ARGUMENT names the field.
absl::StatusOr<LoadClass> ParseLoadClass(const std::string& text);

// A source of requests. Equal classes, options and seeds give equal requests at equal times. Not
// thread-safe.
class LoadSource {
 public:
  struct Options {
    uint32_t vocab_size = 10'000;  // prompts have token ids below it
    uint64_t seed = 1;             // decides arrivals and what is a prompt's own
    uint64_t pages_seed = 1;       // decides what stands in pages
    TraceOptions trace{};
  };
  // An error names the field of the class or the trace.
  static absl::StatusOr<LoadSource> Create(const LoadClass& load, const Options& options);

  // The next arrival time, in whole nanoseconds from the beginning of the load; nullopt after the
  // last of a trace. REQUIRES: the class is open_loop().
  std::optional<absl::Duration> NextArrival();
  // The lengths and the pages of the next request, without its tokens: in place of NextRequest.
  const TraceRequest& NextLengths() { return trace_.requests[turn_++ % trace_.requests.size()]; }
  int page_tokens() const { return trace_.page_tokens; }
  // The next request; those of a trace are taken in turn, again from the first after the last.
  // Prompts share no prefix but the pages of the trace. A page is the same tokens wherever its id
  // occurs with the same seed of pages.
  LoadRequest NextRequest();

 private:
  LoadSource(const LoadClass& load, const Options& options, Trace trace);

  double rate_;
  Options options_;
  Trace trace_;  // without one: a single request of the class's lengths
  size_t turn_ = 0, arrivals_taken_ = 0;
  absl::Duration arrival_ = absl::ZeroDuration();
  std::mt19937_64 arrivals_, tokens_;
};

}  // namespace baton

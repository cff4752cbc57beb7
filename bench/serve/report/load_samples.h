// What the figures of a load are made of: samples, taken from the records of its requests.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/serve/report/load_objective.h"
#include "bench/serve/target/load_record.h"

namespace baton {

// What is measured: on the clock of the records.
struct LoadWindow {
  int64_t from_ns = 0;
  int64_t until_ns = 0;  // not in it
  bool Has(int64_t at_ns) const { return at_ns >= from_ns && at_ns < until_ns; }
};

struct TimedSample {
  int64_t at_ns = 0;  // when: the due time of a request, or when a message came
  int64_t value_ns = 0;
};
using SampleSeries = std::vector<TimedSample>;

// The samples of one class. A request counts if it was due inside the window, whenever it ended; a
// message or a gap counts if it came inside it, whatever became of its request.
struct LoadSamples {
  std::string name;
  uint64_t offered = 0;  // requests due: refused + failed + completed + cut
  uint64_t refused = 0;
  uint64_t failed = 0;
  uint64_t completed = 0;
  uint64_t cut = 0;
  uint64_t good = 0;            // requests completed within the objective
  uint64_t shorter = 0;         // requests completed with fewer tokens than were asked for
  uint64_t tokens = 0;          // tokens that came inside the window
  uint64_t messages = 0;        // messages with these tokens
  uint64_t input_tokens = 0;    // those of prompts whose first token came inside the window
  uint64_t resumed = 0;         // requests completed after more than one attempt
  uint64_t local_prefills = 0;  // requests completed whose prompt the decode worker computed
  uint64_t spread = 0;          // completed requests with only the sum of tokens (kSpread)
  uint64_t uncounted = 0;       // completed requests without a number of tokens (kMessages)
  // From when a request was due, even if it was sent later; `from_sent`: from when it was sent.
  SampleSeries ttft, ttft_from_sent, e2e, e2e_from_sent, refusal;
  SampleSeries itl;       // gaps between two messages with tokens, however many they have
  SampleSeries tpot;      // completed requests with at least two messages
  SampleSeries send_lag;  // from when a request was due until it was sent
  std::array<SampleSeries, kStages> stages{};  // reported by the server for completed requests
  std::vector<int64_t> good_at_ns{};           // due times of the good requests
  std::map<std::string, uint64_t> failures{};  // message -> count; see kOtherFailures
  std::map<std::string, uint64_t> kinds{};     // kind of refusals and failures -> count

  // Adds what the window has of the record. Requests that were due before it give messages only.
  void Add(const LoadRecord& record, const LoadWindow& window, const LoadObjective& objective);

 private:
  void AddMessages(const LoadRecord& record, const LoadWindow& window);
  void AddCompleted(const LoadRecord& record, const LoadObjective& objective);
  void AddFailure(const LoadRecord& record);
};

// Stands for all messages of failures after the first eight; every failure is in its kind, too.
inline constexpr char kOtherFailures[] = "(other messages)";

}  // namespace baton

// The links between workers on which hand-offs fail, for the log and for people who look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"

namespace baton {

// Hand-offs that failed on one link for one reason since the last one that succeeded there.
struct LinkFailure {
  uint64_t prefill = 0;  // ids of workers
  uint64_t decode = 0;
  std::string fault;  // one of kPush... (worker_status.h)
  std::string text;   // error of the last failed hand-off
  uint64_t count = 0;
  absl::Time last{};
};

// Pure; not thread-safe. Bounded: of more than kMaxFailures those that failed last longest ago are
// forgotten.
class LinkFailures {
 public:
  static constexpr size_t kMaxFailures = 256;
  // Pause between two log lines about a link and reason. It doubles with each line.
  static constexpr absl::Duration kFirstPause = absl::Seconds(10);
  static constexpr absl::Duration kLongestPause = absl::Minutes(5);
  // How long a failure is reported if nothing else happens on the link.
  static constexpr absl::Duration kReported = absl::Minutes(10);

  // Counts a failed hand-off. Returns the link's failures if a log line is due, else null. The
  // result is valid until the next call of a function that is not const.
  const LinkFailure* Failed(uint64_t prefill, uint64_t decode, const std::string& fault,
                            const std::string& text, absl::Time now);
  void Succeeded(uint64_t prefill, uint64_t decode);
  // Forgets all links of a worker that is gone.
  void Forget(uint64_t worker);
  // By ids and fault.
  std::vector<LinkFailure> Get(absl::Time now) const;

 private:
  struct Entry {
    LinkFailure failure;
    absl::Time log_at = absl::InfinitePast();
    absl::Duration pause = kFirstPause;
  };
  using Key = std::tuple<uint64_t, uint64_t, std::string>;  // prefill, decode, fault

  std::map<Key, Entry> entries_;
};

}  // namespace baton

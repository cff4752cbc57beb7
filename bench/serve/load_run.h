// Sends a load to a target and measures what comes back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/serve/load_source.h"
#include "bench/serve/report/load_report.h"
#include "bench/serve/report/record_file.h"
#include "bench/serve/target/load_target.h"

namespace baton {

struct LoadOptions {
  std::vector<LoadClass> classes;
  std::string objective;                     // in the form of ParseLoadObjective
  std::string target;                        // its name in reports
  absl::Duration warmup = absl::Seconds(2);  // time under load before the measured window
  // Length of the measured window. Infinite: until the last request of the traces has ended.
  absl::Duration duration = absl::Seconds(20);
  uint32_t vocab_size = 10'000;  // prompts have token ids below it
  uint64_t seed = 1;
  TraceOptions trace{};
  std::string record;  // path of a RecordFile to write; empty: none
};

// The load generator. Use it on one thread, which does all the work: it sends the requests that are
// due, then waits for the next message or the next arrival, whichever is first. So no request of an
// open loop waits for the answer to another, and latency counts from when a request was due: when
// the server falls behind, or the generator does, that shows in the latency of later requests.
//
// A stream of a concurrency whose request is refused or fails pauses before its next one: 100 ms,
// then twice as long each time, at most 2 s. So a server that is gone or full is not flooded.
class LoadRun {
 public:
  // The error names a class, its trace, the objective or the file of records.
  static absl::StatusOr<std::unique_ptr<LoadRun>> Create(const LoadOptions& options,
                                                         std::unique_ptr<LoadTarget> target);
  ~LoadRun();

  // Sends the load and returns when all requests have ended. The error: the records could not be
  // written. Call it once.
  absl::StatusOr<LoadReport> Run();

 private:
  struct Class;
  struct Stream {
    LoadRecord record{};
    int failures = 0;  // failures in a row before this request, in the same stream
  };
  // A stream of a concurrency that waits for its next request.
  struct Pause {
    size_t load = 0;
    int failures = 0;
  };

  LoadRun(const LoadOptions& options, std::unique_ptr<LoadTarget> target);
  void Begin();
  void SendDue(int64_t now_ns);
  void Send(size_t load, int64_t intended_ns, int failures = 0);
  void End(LoadRecord& record);
  // Cancels the streams of classes with a concurrency: they are not needed at the end of the load.
  void CutStreams();
  // When the next request is due; INT64_MAX after the last, or while none is known.
  int64_t NextArrival() const;
  // Whether requests may still be sent.
  bool Sending(int64_t now_ns) const;

  const LoadOptions options_;
  LoadObjective objective_;
  std::unique_ptr<LoadTarget> target_;
  std::unique_ptr<RecordFile> record_file_;  // null: none
  std::vector<std::unique_ptr<Class>> classes_;
  std::unordered_map<uint64_t, Stream> streams_;  // id -> what has not ended
  std::multimap<int64_t, Pause> pauses_;          // by their ends, on the steady clock in ns
  uint64_t sent_ = 0;
  int64_t begin_ns_ = 0, last_end_ns_ = 0;
  LoadWindow window_;
};

}  // namespace baton

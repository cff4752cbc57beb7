// The raw times of a load as JSONL, from which its figures can be computed again.
//
// The first line is the head: "format" ("baton-load-record-1"), "target", "objective" (as it was
// given) and "classes" (names). The last line has the measured window, "from_ns" and "until_ns",
// which is not in it; where it is missing the run was broken off. Each line between them is a
// request, in the order in which they ended: "id", "class", "intended_ns", "sent_ns", "end_ns",
// "messages" ([[time in ns, tokens], ...]), "asked_input_tokens", "asked_output_tokens",
// "input_tokens", "count" ("ids", "usage", "spread" or "messages": the source of the tokens of
// messages), "outcome" ("completed", "refused", "failed" or "cut"), "attempts", "local_prefill",
// "stages_ns", and of refusals and failures "kind" and "error". Times are whole nanoseconds since
// the load began.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "bench/serve/report/load_samples.h"
#include "bench/serve/target/load_record.h"

namespace baton {

// Writes records into a file. Single-threaded.
class RecordFile {
 public:
  struct Head {
    std::string target, objective;
    std::vector<std::string> classes;
    int64_t begin_ns = 0;  // from which the times of the file count
  };
  // Replaces the file. INVALID_ARGUMENT names the path.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Create(const std::string& path);

  // REQUIRES: called once, before Add.
  void Begin(const Head& head);
  void Add(const LoadRecord& record);
  // The last line. The error, if not everything could be written.
  absl::Status End(const LoadWindow& window);

 private:
  RecordFile(std::string path, std::ofstream file);

  const std::string path_;
  std::ofstream file_;
  std::vector<std::string> classes_;
  int64_t begin_ns_ = 0;
};

}  // namespace baton

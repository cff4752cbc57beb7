// The file of --trace-file: requests as Trace Events, which Perfetto and chrome://tracing draw.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "router/trace/request_trace.h"
#include "router/trace/trace_tracks.h"

namespace baton {

// A JSON array of events. Each request is written whole, by one write, so that a reader that
// tolerates a missing end, as the format asks, reads it at any moment, also after the process was
// killed. When the file would exceed its bound it becomes FILE.1, in place of the one before, and a
// new one begins. Not thread-safe.
class TraceFile {
 public:
  // Begins the file; one that is there becomes FILE.1. `process`: the name of this router. An error
  // is one line that names --trace-file, the file and the remedy.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Open(const std::string& path,
                                                         uint64_t max_bytes,
                                                         const std::string& process);
  // Ends the array.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // After an error nothing more is written, and every call has the same error.
  absl::Status Write(const RequestTrace& trace);

 private:
  TraceFile(std::string path, uint64_t max_bytes, std::string process)
      : path_(std::move(path)), max_bytes_(max_bytes), process_(std::move(process)) {}
  absl::Status Begin();
  absl::Status End();
  absl::Status Put(const std::string& text);
  std::string NamesOfTracks(size_t from) const;

  const std::string path_;
  const uint64_t max_bytes_;
  const std::string process_;
  int fd_ = -1;
  uint64_t bytes_ = 0;  // in this file
  TraceTracks tracks_;
  size_t named_ = 0;  // tracks whose names this file has
  absl::Status status_;
};

}  // namespace baton

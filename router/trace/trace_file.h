// The file of --trace-file: requests as Trace Events, which Perfetto and chrome://tracing draw.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "router/trace/request_trace.h"
#include "router/trace/trace_tracks.h"

namespace baton {

// A JSON array of events. Each request is written whole, by one write, so that a reader that
// tolerates a missing end, as the format asks, reads it at any moment, also after the process was
// killed. When the file would exceed its bound it becomes FILE.1, in place of the one before, and a
// new one begins. A file that is moved, deleted or emptied is begun anew. Not thread-safe.
//
// If the file cannot be written, as on a full disk, what was written of a request is cut off again,
// and requests are left out until writing succeeds. It is tried again by a request that comes at
// least kFirstPause later, then after pauses that double up to kLongestPause.
class TraceFile {
 public:
  static constexpr absl::Duration kFirstPause = absl::Seconds(1);
  static constexpr absl::Duration kLongestPause = absl::Seconds(10);

  // Begins the file; one that is there becomes FILE.1. `process`: the name of this router. An error
  // is one line that names --trace-file, the file and the remedy. A full disk is none.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Open(const std::string& path,
                                                         uint64_t max_bytes,
                                                         const std::string& process);
  // Ends the array.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Writes the request, or leaves it out. `now`: the steady clock. DATA_LOSS: the file cannot be
  // written, or could not a short while ago. RESOURCE_EXHAUSTED: too many requests at one time.
  absl::Status Write(const RequestTrace& trace, absl::Time now);

  const std::string& path() const { return path_; }

 private:
  TraceFile(std::string path, uint64_t max_bytes, std::string process)
      : path_(std::move(path)), max_bytes_(max_bytes), process_(std::move(process)) {}
  // Makes the file, without a byte. REQUIRES: none is open.
  absl::Status Begin();
  absl::Status End();
  void Close();
  // Appends the text as a whole, or not at all.
  absl::Status Put(const std::string& text);
  absl::Status Append(const std::string& events);
  std::string Head() const;
  std::string NamesOfTracks(size_t from) const;

  const std::string path_;
  const uint64_t max_bytes_;
  const std::string process_;
  int fd_ = -1;
  uint64_t bytes_ = 0;      // in this file, without what is to be cut off
  bool is_ragged_ = false;  // the file has more than that: a part of a text
  TraceTracks tracks_;
  size_t named_ = 0;     // tracks whose names this file has
  absl::Status status_;  // status of the last write
  absl::Time next_try_ = absl::InfinitePast();
  absl::Duration pause_ = kFirstPause;
};

}  // namespace baton

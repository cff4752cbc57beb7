#include "router/trace/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/status_macros.h"
#include "router/trace/trace_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPid = 1;  // the process that the drawing shows: all are of this router
constexpr char kEnd[] = "\n]\n";

bool IsEmpty(int fd) {
  struct stat file = {};
  return fstat(fd, &file) == 0 && file.st_size == 0;
}

std::string Metadata(const char* what, int track, const std::string& name) {
  return TraceText(
      {{"name", what}, {"ph", "M"}, {"pid", kPid}, {"tid", track}, {"args", {{"name", name}}}});
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Open(const std::string& path,
                                                           uint64_t max_bytes,
                                                           const std::string& process) {
  auto file = std::unique_ptr<TraceFile>(new TraceFile(path, max_bytes, process));
  BATON_RETURN_IF_ERROR(file->Begin());
  // If the disk is full the head is written with the first request for which there is room.
  static_cast<void>(file->Put(file->Head()));
  return file;
}

TraceFile::~TraceFile() {
  if (fd_ >= 0) static_cast<void>(End());
  Close();
}

void TraceFile::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
  bytes_ = 0;
  is_ragged_ = false;
  named_ = 0;
}

absl::Status TraceFile::Begin() {
  const auto failed = [this](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace-file ", path_, ": ", what, ": ", std::strerror(errno),
                     "; name a file in a folder where the router may write"));
  };
  struct stat present = {};
  if (stat(path_.c_str(), &present) == 0) {
    if (!S_ISREG(present.st_mode)) {
      errno = EEXIST;
      return failed("it exists and is not a regular file");
    }
    if (std::rename(path_.c_str(), absl::StrCat(path_, ".1").c_str()) != 0) {
      return failed("cannot be renamed to .1");
    }
  }
  constexpr mode_t kOwnerAndGroup = 0640;
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kOwnerAndGroup);
  if (fd_ < 0) return failed("cannot be made");
  return absl::OkStatus();
}

absl::Status TraceFile::End() { return Put(bytes_ == 0 ? Head() + kEnd : kEnd); }

absl::Status TraceFile::Put(const std::string& text) {
  const auto cut = [this] {
    is_ragged_ = ftruncate(fd_, static_cast<off_t>(bytes_)) != 0;
    return !is_ragged_;
  };
  if ((!is_ragged_ || cut()) && WriteAll(fd_, text)) {
    bytes_ += text.size();
    return absl::OkStatus();
  }
  const int error = errno;
  cut();
  return absl::DataLossError(absl::StrCat("--trace-file ", path_,
                                          ": cannot be written: ", std::strerror(error),
                                          "; requests are left out until it can be"));
}

std::string TraceFile::Head() const {
  return absl::StrCat("[\n", Metadata("process_name", 0, process_));
}

std::string TraceFile::NamesOfTracks(size_t from) const {
  std::string text;
  for (size_t track = from; track < tracks_.size(); ++track) {
    absl::StrAppend(
        &text, ",\n",
        Metadata("thread_name", static_cast<int>(track), absl::StrCat("requests ", track + 1)));
  }
  return text;
}

absl::Status TraceFile::Append(const std::string& events) {
  // People move, delete or empty a file to make room.
  if (fd_ >= 0 && !IsFileAt(fd_, path_)) {
    static_cast<void>(End());
    Close();
  } else if (fd_ >= 0 && IsEmpty(fd_)) {
    bytes_ = 0;
    named_ = 0;
  }
  const size_t bytes = NamesOfTracks(named_).size() + events.size() + sizeof(kEnd);
  const bool is_full = named_ > 0 && bytes_ + bytes > max_bytes_;
  if (is_full) {
    BATON_RETURN_IF_ERROR(End());
    Close();
  }
  if (fd_ < 0) BATON_RETURN_IF_ERROR(Begin());
  if (is_full) LogInfo("--trace-file {} was full and is {}.1 now", LogSafe(path_), LogSafe(path_));
  const std::string head = bytes_ == 0 ? Head() : "";
  BATON_RETURN_IF_ERROR(Put(absl::StrCat(head, NamesOfTracks(named_), events)));
  named_ = tracks_.size();
  return absl::OkStatus();
}

absl::Status TraceFile::Write(const RequestTrace& trace, absl::Time now) {
  if (!status_.ok() && now < next_try_) return status_;
  const std::vector<int> tracks = tracks_.Give(trace);
  if (tracks.empty()) {
    return absl::ResourceExhaustedError("too many concurrent requests, so some are not written");
  }
  std::string events;
  for (const Json& event : ChromeEvents(trace, kPid, tracks)) {
    absl::StrAppend(&events, ",\n", TraceText(event));
  }
  status_ = Append(events);
  if (status_.ok()) {
    pause_ = kFirstPause;
  } else {
    status_ = absl::DataLossError(status_.message());
    next_try_ = now + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  return status_;
}

}  // namespace baton

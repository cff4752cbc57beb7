#include "router/trace/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
  return file;
}

TraceFile::~TraceFile() {
  if (fd_ < 0) return;
  if (status_.ok()) static_cast<void>(End());
  close(fd_);
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
      return failed("it is there and no ordinary file");
    }
    if (std::rename(path_.c_str(), absl::StrCat(path_, ".1").c_str()) != 0) {
      return failed("cannot be renamed to .1");
    }
  }
  constexpr mode_t kOwnerAndGroup = 0640;
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, kOwnerAndGroup);
  if (fd_ < 0) return failed("cannot be made");
  bytes_ = 0;
  named_ = 0;
  return Put(absl::StrCat("[\n", Metadata("process_name", 0, process_)));
}

absl::Status TraceFile::End() { return Put(kEnd); }

absl::Status TraceFile::Put(const std::string& text) {
  if (!WriteAll(fd_, text)) {
    return absl::DataLossError(absl::StrCat("--trace-file ", path_, ": cannot be written: ",
                                            std::strerror(errno), "; nothing more is traced"));
  }
  bytes_ += text.size();
  return absl::OkStatus();
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

absl::Status TraceFile::Write(const RequestTrace& trace) {
  if (!status_.ok()) return status_;
  const std::vector<int> tracks = tracks_.Give(trace);
  if (tracks.empty()) return absl::ResourceExhaustedError("too many requests at one time");
  const auto write = [&]() -> absl::Status {
    std::string text;
    for (const Json& event : ChromeEvents(trace, kPid, tracks)) {
      absl::StrAppend(&text, ",\n", TraceText(event));
    }
    std::string names = NamesOfTracks(named_);
    const bool has_requests = named_ > 0;
    if (has_requests && bytes_ + names.size() + text.size() + sizeof(kEnd) > max_bytes_) {
      BATON_RETURN_IF_ERROR(End());
      close(std::exchange(fd_, -1));
      BATON_RETURN_IF_ERROR(Begin());
      LogInfo("--trace-file {} was full and is {}.1 now", LogSafe(path_), LogSafe(path_));
      names = NamesOfTracks(0);
    }
    BATON_RETURN_IF_ERROR(Put(names + text));
    named_ = tracks_.size();
    return absl::OkStatus();
  };
  status_ = write();
  return status_;
}

}  // namespace baton

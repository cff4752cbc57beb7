#include "common/net/library_logs.h"

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/net/recent_texts.h"

namespace baton {
namespace {

// Whether gRPC's message is a warning: an error, at most one each second, and none that was one
// lately. A peer whose certificate is wrong may be called again and again.
bool IsWarning(const gpr_log_func_args& args) {
  static std::atomic<int64_t> last_second{0};
  ABSL_CONST_INIT static absl::Mutex mutex(absl::kConstInit);
  static RecentTexts texts;
  if (args.severity != GPR_LOG_SEVERITY_ERROR) return false;
  const absl::Time now = SteadyNow();
  const int64_t second = absl::ToUnixSeconds(now);
  if (last_second.exchange(second) == second) return false;
  absl::MutexLock lock(&mutex);
  return texts.Take(args.message, now);
}

// Logs the messages of gRPC. Failed handshakes are reported nowhere else, but every peer can
// cause them, so there are few warnings, and the rest goes to the debug log.
void LogFromGrpc(gpr_log_func_args* args) {
  if (IsWarning(*args)) {
    LogWarning("grpc: {}", LogSafe(args->message));
  } else {
    LogDebug("grpc {}:{} {}", args->file, args->line, LogSafe(args->message));
  }
}

// Logs the messages of protobuf for debugging only: every client can cause them by a string that is
// not UTF-8, and the answer to the sender says so.
void LogFromProtobuf(google::protobuf::LogLevel /*level*/, const char* file, int line,
                     const std::string& message) {
  LogDebug("protobuf {}:{} {}", file, line, LogSafe(message));
}

}  // namespace

void LogLibraryMessages() {
  gpr_set_log_function(LogFromGrpc);
  google::protobuf::SetLogHandler(LogFromProtobuf);
}

}  // namespace baton

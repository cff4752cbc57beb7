#include "common/net/library_logs.h"

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

#include "common/base/clock.h"
#include "common/base/log.h"

namespace baton {
namespace {

// Logs the messages of gRPC. Failed handshakes are reported nowhere else, but anybody who connects
// can cause them, so at most one error each second is a warning and the rest goes to the debug log.
void LogFromGrpc(gpr_log_func_args* args) {
  static std::atomic<int64_t> last_second{0};
  const int64_t second = absl::ToUnixSeconds(SteadyNow());
  if (args->severity == GPR_LOG_SEVERITY_ERROR && last_second.exchange(second) != second) {
    LogWarning("grpc: {}", LogSafe(args->message));
  } else {
    LogDebug("grpc {}:{} {}", args->file, args->line, LogSafe(args->message));
  }
}

// Logs the messages of protobuf for debugging only: anybody can cause them by a string that is not
// UTF-8, and the answer to the sender says so.
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

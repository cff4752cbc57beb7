#include "common/net/library_logs.h"

#include <algorithm>
#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// What both libraries write to standard error where each reports `text`.
std::string Logged(const char* text) {
  testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "Error parsing metadata: %s", text);
  GOOGLE_LOG(ERROR) << "not UTF-8: " << text;  // logged for debugging only
  return testing::internal::GetCapturedStderr();
}

TEST(LibraryLogs, TextsOfPeersAreLoggedEscaped) {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as grpc_init does
  LogLibraryMessages();
  std::string logged;
  // At most one error each second is logged, and another test's may have been.
  for (const absl::Time end = SteadyNow() + absl::Seconds(10);
       logged.empty() && SteadyNow() < end;) {
    logged = Logged("\x1b[2J\nforged");
  }
  EXPECT_THAT(logged, HasSubstr("grpc: Error parsing metadata: \\u001b[2J\\u000aforged\n"));
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1) << logged;
}

}  // namespace
}  // namespace baton

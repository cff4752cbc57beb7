#include "client/serve/mps_control.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kProgram[] = "nvidia-cuda-mps-control";
constexpr char kPipeVariable[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr char kLogVariable[] = "CUDA_MPS_LOG_DIRECTORY";
constexpr absl::Duration kQuitTimeout = absl::Seconds(5);

// The path of kProgram; empty: PATH has none.
std::string FindProgram() {
  const char* const path = getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    std::string program = absl::StrCat(folder, "/", kProgram);
    if (!folder.empty() && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

void ForgetFolder(const std::string& folder) {
  unsetenv(kPipeVariable);
  unsetenv(kLogVariable);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// Makes a folder that only this user may enter, and names it in the environment.
absl::StatusOr<std::string> MakeFolder() {
  std::error_code error;
  std::string folder = std::filesystem::temp_directory_path(error) / "baton-mps-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--cuda-mps: no folder ", folder, ": ", std::strerror(errno)));
  }
  const std::string log = folder + "/log";
  std::filesystem::create_directory(log, error);
  setenv(kPipeVariable, folder.c_str(), /*overwrite=*/1);
  setenv(kLogVariable, log.c_str(), /*overwrite=*/1);
  return folder;
}

// Waits for the file that the program writes when it is ready.
absl::Status WaitUntilReady(ChildProcess& process, const std::string& folder,
                            absl::Duration timeout) {
  const std::string file = absl::StrCat(folder, "/", kProgram, ".pid");
  const absl::Time deadline = SteadyNow() + timeout;
  while (access(file.c_str(), F_OK) != 0) {
    if (const auto exit = process.Poll(); exit.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--cuda-mps: ", kProgram, " ended (", exit->Text(),
          "); its error message, if any, is above; leave --cuda-mps out to do without it"));
    }
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("--cuda-mps: ", kProgram, " was not ready after ",
                       absl::FormatDuration(timeout), "; leave --cuda-mps out to do without it"));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<MpsControl>> MpsControl::Start(absl::Duration timeout) {
  if (const char* const pipes = getenv(kPipeVariable); pipes != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("--cuda-mps: ", kPipeVariable, " is ", pipes,
                     ", so the workers already have an MPS service; leave --cuda-mps out"));
  }
  std::string program = FindProgram();
  if (program.empty()) {
    return absl::NotFoundError(absl::StrCat("--cuda-mps: there is no ", kProgram,
                                            " in PATH; it comes with NVIDIA's driver"));
  }
  BATON_ASSIGN_OR_RETURN(std::string folder, MakeFolder());
  absl::Cleanup forget = [&folder] { ForgetFolder(folder); };
  BATON_ASSIGN_OR_RETURN(ChildProcess process, ChildProcess::Start({program, "-f"}));
  BATON_RETURN_IF_ERROR(WaitUntilReady(process, folder, timeout));
  std::move(forget).Cancel();
  return std::unique_ptr<MpsControl>(
      new MpsControl(std::move(program), std::move(folder), std::move(process)));
}

MpsControl::~MpsControl() {
  if (Runs()) {
    // The program without an argument hands its input to the one that runs.
    auto quit = ChildProcess::Start({"/bin/sh", "-c", "echo quit | \"$0\"", program_});
    if (quit.ok()) quit->Wait(kQuitTimeout);
    process_.Wait(kQuitTimeout);
  }
  ForgetFolder(folder_);
}

}  // namespace baton

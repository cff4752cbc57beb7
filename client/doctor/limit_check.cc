#include "client/doctor/limit_check.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "client/doctor/machine_files.h"

namespace baton {
namespace {

// A router keeps one descriptor for each client and some for each worker.
constexpr uint64_t kFewDescriptors = 256, kSomeDescriptors = 4096;
constexpr int kShortBacklog = 128;
constexpr uint64_t kFewThreads = 512;
constexpr uint64_t kLeastStateBytes = 1 << 20;

uint64_t LimitOf(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return 0;
  return limit.rlim_max;
}

// ${XDG_STATE_HOME:-$HOME/.local/state}; relative paths do not count.
std::string StateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return state;
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? absl::StrCat(home, "/.local/state") : "";
}

Finding DescriptorsFinding(const LimitFacts& facts) {
  Finding finding{.check = "limit.descriptors"};
  finding.found = facts.descriptors == 0
                      ? "no limit"
                      : absl::StrCat(facts.descriptors, " file descriptors per process");
  if (facts.descriptors == 0 || facts.descriptors >= kSomeDescriptors) return finding;
  finding.verdict = facts.descriptors < kFewDescriptors ? Verdict::kFailed : Verdict::kWarning;
  finding.remedy =
      absl::StrCat("raise the limit to ", kSomeDescriptors,
                   " or more (ulimit -Hn, LimitNOFILE=): each client connection needs one");
  return finding;
}

Finding BacklogFinding(const LimitFacts& facts) {
  Finding finding{
      .check = "limit.listen_backlog",
      .found = absl::StrCat(facts.listen_backlog, " connections can wait to be accepted")};
  if (facts.listen_backlog == 0) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "the kernel does not report the limit";
  } else if (facts.listen_backlog < kShortBacklog) {
    finding.verdict = Verdict::kWarning;
    finding.remedy =
        "run sysctl net.core.somaxconn=4096, so that bursts of new connections are not refused";
  }
  return finding;
}

Finding ThreadsFinding(const LimitFacts& facts) {
  Finding finding{.check = "limit.threads"};
  finding.found =
      facts.threads == 0 ? "no limit" : absl::StrCat(facts.threads, " threads per user");
  if (facts.threads == 0 || facts.threads >= kFewThreads) return finding;
  finding.verdict = Verdict::kWarning;
  finding.remedy =
      absl::StrCat("raise the limit to ", kFewThreads,
                   " or more (ulimit -u, TasksMax=): each server starts some dozens of threads");
  return finding;
}

Finding StateFinding(const LimitFacts& facts) {
  Finding finding{.check = "limit.state_folder", .subject = facts.state_folder};
  if (facts.state_folder.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found =
        "neither XDG_STATE_HOME nor HOME is set to an absolute path, so the fleet secret is random";
    return finding;
  }
  finding.found = absl::StrCat(facts.state_free_bytes >> 20, " MiB free");
  if (facts.state_writable && facts.state_free_bytes >= kLeastStateBytes) return finding;
  finding.verdict = Verdict::kWarning;
  if (!facts.state_writable) finding.found = "this user cannot write to the folder";
  finding.remedy =
      "free some space and let this user write to the folder, or give --fleet-secret-file; without "
      "a stored secret, each restart of the router loses the cached prefixes";
  return finding;
}

}  // namespace

LimitFacts GatherLimitFacts(const std::string& root) {
  LimitFacts facts;
  facts.descriptors = LimitOf(RLIMIT_NOFILE);
  facts.threads = LimitOf(RLIMIT_NPROC);
  facts.listen_backlog =
      static_cast<int>(ReadMachineNumber(root + "/proc/sys/net/core/somaxconn").value_or(0));
  facts.state_folder = StateFolder();
  // What is not there yet is made in the nearest folder above it.
  std::filesystem::path folder = facts.state_folder;
  std::error_code error;
  while (folder.has_relative_path() && !std::filesystem::exists(folder, error)) {
    folder = folder.parent_path();
  }
  struct statvfs disk {};
  if (!facts.state_folder.empty() && statvfs(folder.c_str(), &disk) == 0) {
    facts.state_writable = access(folder.c_str(), W_OK) == 0;
    facts.state_free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  }
  return facts;
}

Findings LimitFindings(const LimitFacts& facts) {
  return {DescriptorsFinding(facts), BacklogFinding(facts), ThreadsFinding(facts),
          StateFinding(facts)};
}

}  // namespace baton

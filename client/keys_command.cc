#include "client/keys_command.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "common/base/log.h"
#include "common/base/small_file.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "router/tenants/api_key.h"

namespace baton {
namespace {

void AddFileFlag(FlagSet& flags, std::string& file) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddString("file=FILE", file, "Keys file, the one that the router's --api-keys names");
}

absl::Status NoFile() {
  return absl::InvalidArgumentError("--file: not given; name the keys file");
}

absl::StatusOr<KeysFile> Read(const std::string& path) {
  if (path.empty()) return NoFile();
  BATON_ASSIGN_OR_RETURN(const std::string text, ReadKeysText(path));
  return ParseKeysFile(path, text);
}

// Reads the file, or begins an empty one if there is none and `create`; writes what `change` makes
// of it. Another `baton keys` that does so at the same time is an error, so that no key is lost.
absl::Status Change(const std::string& path, bool create,
                    absl::FunctionRef<absl::Status(KeysFile&)> change) {
  if (path.empty()) return NoFile();
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const int lock = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const absl::Cleanup unlock = [lock] {
    if (lock >= 0) close(lock);
  };
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": another `baton keys` command is changing it; try again"));
  }
  KeysFile file;
  if (!create || access(path.c_str(), F_OK) == 0) {
    BATON_ASSIGN_OR_RETURN(file, Read(path));
  }
  BATON_RETURN_IF_ERROR(change(file));
  return WriteKeysFile(path, file);
}

// The key that the user brings in the file, or on stdin if the path is "-". No error repeats it.
absl::StatusOr<std::string> ReadBroughtKey(const std::string& path) {
  constexpr size_t kMaxBytes = 4096;
  const bool from_stdin = path == "-";
  const absl::StatusOr<std::string> text =
      from_stdin ? ReadSmallFileOrPipe("/dev/stdin", kMaxBytes) : ReadSmallFile(path, kMaxBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--key-from ", text.status().message()));
  }
  const absl::string_view key = absl::StripAsciiWhitespace(*text);
  if (IsStrongApiKey(key)) return std::string(key);
  return absl::InvalidArgumentError(absl::StrCat(
      "--key-from ", path, ": must hold one key of ", kMinStrongKeyCharacters, " to ",
      kMaxApiKeyCharacters, " printable characters without spaces, at least ",
      kMinStrongKeyDifferent, " of them different; make one with: openssl rand -hex 32"));
}

absl::Status CheckName(const char* flag, const std::string& name) {
  const absl::Status status = CheckTenantName(name);
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(flag, ": ", status.message()));
}

// A limit as people read it.
template <typename T>
std::string Limit(T limit) {
  return limit > 0 ? absl::StrCat(limit) : "-";
}

// ID, tenant, whether it is an operator, limits and share.
constexpr char kRow[] = "%-21s %-20s %-8s %10s %12s %8s %14s  %s\n";

std::string FormatList(const KeysFile& file) {
  std::string text = absl::StrFormat(kRow, "ID", "TENANT", "OPERATOR", "REQUESTS/S", "TOKENS/MIN",
                                     "STREAMS", "PRIORITY", "SHARE");
  for (const auto& [name, tenant] : file.tenants) {
    std::vector<std::string> ids;
    for (const ApiKeyEntry& key : file.keys) {
      if (key.tenant != name) continue;
      ids.push_back(absl::StrCat(ApiKeyId(key.hash), key.revoked ? " revoked" : ""));
    }
    if (ids.empty()) ids.emplace_back("(no key)");
    const bool open_end = tenant.max_priority == Tenant().max_priority;
    const std::string priority =
        absl::StrCat(tenant.min_priority, "..", open_end ? "" : absl::StrCat(tenant.max_priority));
    for (const std::string& id : ids) {
      absl::StrAppendFormat(&text, kRow, id, name, tenant.operates ? "yes" : "-",
                            Limit(tenant.requests_per_second), Limit(tenant.tokens_per_minute),
                            Limit(tenant.streams), priority,
                            tenant.share.empty() ? "-" : tenant.share);
    }
  }
  return text;
}

}  // namespace

void KeysNewCommand::AddFlags(FlagSet& flags) {
  AddFileFlag(flags, file_);
  flags.AddString("tenant=NAME", tenant_, "Tenant that the key belongs to");
  flags.AddString("key-from=FILE", key_from_,
                  "Add the key in this file (- for standard input) instead of making and printing "
                  "a new one");
  flags.AddDouble("requests-per-second", requests_per_second_, 0, 1e6,
                  "Limit on the tenant's requests per second; 0: no limit");
  flags.AddInt("tokens-per-minute", tokens_per_minute_, 0, std::numeric_limits<int>::max(),
               "Limit on the tenant's tokens per minute, prompts and answers together; 0: no "
               "limit");
  flags.AddInt("streams", streams_, 0, std::numeric_limits<int>::max(),
               "Limit on the tenant's simultaneous answers, where each choice of a request counts "
               "as one; 0: no limit");
  constexpr int kLeast = std::numeric_limits<int>::min();
  constexpr int kMost = std::numeric_limits<int>::max();
  flags.AddInt("min-priority", min_priority_, kLeast, kMost,
               "Lowest priority number of the tenant's requests; lower ones are raised to it");
  flags.AddInt("max-priority", max_priority_, kLeast, kMost,
               "Highest priority number of the tenant's requests; higher ones are lowered to it");
  flags.AddString("share=NAME", share_,
                  "Let the tenant share cached prefixes with all tenants that have the same NAME");
  flags.AddBool("operator", operates_, "Let the tenant's keys open the router's page and metrics");
  flags.AddExample("baton keys new --file keys.toml --tenant acme",
                   "Print a new key for the tenant acme");
  flags.AddExample("baton keys new --file keys.toml --tenant acme --streams 16",
                   "Add a key, and allow the tenant 16 answers at a time");
}

absl::Status KeysNewCommand::SetLimits(const FlagSet& flags, Tenant& tenant) const {
  if (flags.Given("requests-per-second")) tenant.requests_per_second = requests_per_second_;
  if (flags.Given("tokens-per-minute")) {
    tenant.tokens_per_minute = static_cast<uint32_t>(tokens_per_minute_);
  }
  if (flags.Given("streams")) tenant.streams = static_cast<uint32_t>(streams_);
  if (flags.Given("min-priority")) tenant.min_priority = min_priority_;
  if (flags.Given("max-priority")) tenant.max_priority = max_priority_;
  if (flags.Given("share")) tenant.share = share_;
  if (flags.Given("operator")) tenant.operates = operates_;
  if (tenant.min_priority > tenant.max_priority) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--min-priority ", tenant.min_priority, " is above --max-priority ", tenant.max_priority));
  }
  return absl::OkStatus();
}

absl::Status KeysNewCommand::Add(const FlagSet& flags, const std::string& key) const {
  return Change(file_, /*create=*/true, [&](KeysFile& file) -> absl::Status {
    const std::string hash = HashApiKey(key);
    const auto same = std::find_if(file.keys.begin(), file.keys.end(),
                                   [&](const ApiKeyEntry& entry) { return entry.hash == hash; });
    if (same != file.keys.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--key-from: ", file_, " has this key already, with the id ", ApiKeyId(hash),
                       same->revoked ? ", revoked" : "", "; give a different key"));
    }
    BATON_RETURN_IF_ERROR(CheckName("--tenant", tenant_));
    if (!share_.empty()) BATON_RETURN_IF_ERROR(CheckName("--share", share_));
    BATON_RETURN_IF_ERROR(SetLimits(flags, file.tenants[tenant_]));
    file.keys.push_back({.hash = hash, .tenant = tenant_});
    // What the router would refuse is not written.
    return ParseKeysFile(file_, FormatKeysFile(file)).status();
  });
}

int KeysNewCommand::Run(const FlagSet& flags) {
  constexpr char kProgram[] = "baton keys new";
  const bool brought = flags.Given("key-from");
  const absl::StatusOr<std::string> key =
      brought ? ReadBroughtKey(key_from_) : absl::StatusOr<std::string>(MakeApiKey());
  if (!key.ok()) return ExitUsage(kProgram, key.status());
  if (const absl::Status status = Add(flags, *key); !status.ok()) {
    return ExitUsage(kProgram, status);
  }
  WriteOutput(brought ? absl::StrCat("added the key ", ApiKeyId(HashApiKey(*key)), "\n")
                      : absl::StrCat(*key, "\n"));
  return 0;
}

void KeysListCommand::AddFlags(FlagSet& flags) {
  AddFileFlag(flags, file_);
  flags.AddExample("baton keys list --file keys.toml", "List the keys and tenants of a file");
  flags.AddExample("baton keys list --file /etc/baton/router/keys.toml",
                   "List the keys of a router that is configured in /etc");
}

int KeysListCommand::Run(const FlagSet&) {
  const absl::StatusOr<KeysFile> file = Read(file_);
  if (!file.ok()) return ExitUsage("baton keys list", file.status());
  WriteOutput(FormatList(*file));
  return 0;
}

void KeysRevokeCommand::AddFlags(FlagSet& flags) {
  AddFileFlag(flags, file_);
  flags.AddPositional("ID", id_, "Id of the key, as `baton keys list` prints it");
  flags.AddExample("baton keys revoke 3f2a90c1d4e5 --file keys.toml", "Revoke one key");
  flags.AddExample("baton keys revoke 3f2a90c1d4e5 --file /etc/baton/router/keys.toml",
                   "Revoke a key of a router that is configured in /etc");
}

int KeysRevokeCommand::Run(const FlagSet&) {
  const absl::Status status = Change(file_, /*create=*/false, [&](KeysFile& file) {
    const auto key = std::find_if(
        file.keys.begin(), file.keys.end(),
        [&](const ApiKeyEntry& entry) { return ApiKeyId(entry.hash) == id_.value_or(""); });
    if (key == file.keys.end()) {
      return absl::InvalidArgumentError(absl::StrCat(file_, ": has no key with the id '",
                                                     LogSafe(id_.value_or("")),
                                                     "'; see baton keys list"));
    }
    key->revoked = true;
    return absl::OkStatus();
  });
  return status.ok() ? 0 : ExitUsage("baton keys revoke", status);
}

}  // namespace baton

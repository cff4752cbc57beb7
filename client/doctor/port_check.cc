#include "client/doctor/port_check.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "client/doctor/machine_files.h"
#include "common/base/address.h"

namespace baton {
namespace {

// The sockets ("socket:[INODE]") that listen on the port, by a table of /proc/net.
void AddListeners(const std::string& table, uint16_t port, std::set<std::string>& sockets) {
  constexpr unsigned kListen = 0x0A;
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    std::array<char, 64> inode{};
    unsigned local_port = 0, state = 0;
    // sl local_address:port remote_address:port st tx:rx tr:when retrnsmt uid timeout inode
    const int read = std::sscanf(std::string(line).c_str(),
                                 " %*[^:]: %*[^:]:%x %*s %x %*s %*s %*s %*s %*s %63[0-9]",
                                 &local_port, &state, inode.data());
    if (read == 3 && state == kListen && local_port == port) {
      sockets.insert(absl::StrCat("socket:[", inode.data(), "]"));
    }
  }
}

bool HoldsOneOf(const std::string& process_folder, const std::set<std::string>& sockets) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(process_folder + "/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code unread;  // a descriptor may be closed meanwhile
    const std::string target = std::filesystem::read_symlink(entry->path(), unread).string();
    if (!unread && sockets.count(target) > 0) return true;
  }
  return false;
}

PortHolder FindHolder(uint16_t port, const std::string& root) {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    AddListeners(ReadMachineFile(root + table), port, sockets);
  }
  if (sockets.empty()) return {};
  for (const std::string& process : NumberedEntries(root + "/proc", "")) {
    const std::string folder = absl::StrCat(root, "/proc/", process);
    if (!HoldsOneOf(folder, sockets)) continue;
    return {.pid = std::stoi(process), .program = ReadMachineLine(folder + "/comm")};
  }
  return {};
}

}  // namespace

PortFacts GatherPortFacts(const std::string& server, const std::string& flag,
                          const std::string& address, const std::string& root) {
  PortFacts facts{.server = server, .flag = flag, .address = address};
  facts.listen = CheckListenable(flag, address);
  const auto parsed = ParseHostPort(address);
  if (!facts.listen.ok() && parsed.ok()) facts.holder = FindHolder(parsed->port, root);
  return facts;
}

bool HeldByBaton(const PortFacts& facts) {
  return !facts.listen.ok() && absl::StartsWith(facts.holder.program, "baton");
}

Finding PortFinding(const PortFacts& facts) {
  Finding finding{.check = "port.free",
                  .subject = absl::StrCat(facts.server, " ", facts.flag, " ", facts.address)};
  if (facts.listen.ok()) {
    finding.found = "free";
    return finding;
  }
  if (HeldByBaton(facts)) {
    finding.found =
        absl::StrCat(facts.holder.program, " (process ", facts.holder.pid, ") already runs there");
    return finding;
  }
  finding.verdict = facts.chosen ? Verdict::kFailed : Verdict::kWarning;
  finding.found = facts.holder.pid > 0 ? absl::StrCat("in use by ", facts.holder.program,
                                                      " (process ", facts.holder.pid, ")")
                                       : std::string(facts.listen.message());
  finding.remedy = absl::StrCat(
      "stop the program that uses the address, or choose another one with ", facts.flag);
  return finding;
}

}  // namespace baton

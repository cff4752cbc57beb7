#include "common/base/free_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr char kCgroupFile[] = "/proc/self/cgroup";
constexpr char kMountsFile[] = "/proc/self/mountinfo";
constexpr char kMachineFile[] = "/proc/meminfo";
constexpr char kStatusFile[] = "/proc/self/status";

// The names of a control group's files, and of two entries of its `stat` file.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* stat;
  const char* active;
  const char* inactive;
};
constexpr GroupFiles kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                                  "/memory.stat", "total_active_file ", "total_inactive_file "};
constexpr GroupFiles kVersion2 = {"/memory.max", "/memory.current", "/memory.stat", "active_file ",
                                  "inactive_file "};

// The number behind `name` in a file whose lines begin with a name. 0: there is none.
uint64_t ReadEntry(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  }
  return 0;
}

// The number in a file of the control group. A file that cannot be read, or has no number, means
// that there is no limit.
uint64_t ReadBytes(const std::string& path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

bool Lists(absl::string_view list, absl::string_view item) {
  for (const absl::string_view listed : absl::StrSplit(list, ',')) {
    if (listed == item) return true;
  }
  return false;
}

// A process's place in a hierarchy of control groups.
struct Place {
  bool version_1 = false;
  std::string path;  // such as "/system.slice/baton.service"
};

// The place in the hierarchy that limits memory. nullopt: there is none.
std::optional<Place> FindPlace(const std::string& path) {
  std::ifstream file(path);
  std::optional<Place> found;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (Lists(parts[1], "memory")) return Place{.version_1 = true, .path = parts[2]};
    if (parts[0] == "0" && parts[1].empty()) found = Place{.version_1 = false, .path = parts[2]};
  }
  return found;
}

// The place where a hierarchy is mounted, and the path of the group that is seen there.
struct Mount {
  std::string folder = "/sys/fs/cgroup";
  std::string group = "/";
};

// The mount of version 1's memory controller, or of version 2.
Mount FindMount(const std::string& path, bool version_1) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<std::string> mount = absl::StrSplit(halves.first, ' ');
    const std::vector<std::string> kind = absl::StrSplit(halves.second, ' ');
    if (mount.size() < 5 || kind.size() < 3) continue;
    const bool fits =
        version_1 ? kind[0] == "cgroup" && Lists(kind[2], "memory") : kind[0] == "cgroup2";
    if (fits) return {.folder = mount[4], .group = mount[3]};
  }
  return {};
}

// The folder of the group with that path, below the mount's. Empty: the mount's own group, which is
// also all that can be seen of a group elsewhere.
std::string BelowMount(const std::string& path, const Mount& mount) {
  const std::string top = mount.group == "/" ? "" : mount.group;
  if (!absl::StartsWith(path, absl::StrCat(top, "/")) || absl::StrContains(path, "/..")) return "";
  const std::string below = path.substr(top.size());
  return below == "/" ? "" : below;
}

}  // namespace

double MemoryUse::part() const {
  const uint64_t others = group_bytes - std::min(own_bytes, group_bytes);
  if (limit_bytes == 0) return 0;
  if (limit_bytes <= others) return 1;
  return std::min(1.0, static_cast<double>(own_bytes) / static_cast<double>(limit_bytes - others));
}

MemoryGroups::MemoryGroups(std::string root)
    : root_(std::move(root)), machine_bytes_(ReadEntry(root_ + kMachineFile, "MemTotal:") * 1024) {
  const std::optional<Place> place = FindPlace(root_ + kCgroupFile);
  if (!place.has_value()) return;
  version_1_ = place->version_1;
  const Mount mount = FindMount(root_ + kMountsFile, version_1_);
  std::string below = BelowMount(place->path, mount);
  while (!below.empty()) {
    folders_.push_back(absl::StrCat(root_, mount.folder, below));
    below.erase(below.rfind('/'));
  }
  folders_.push_back(root_ + mount.folder);
}

std::vector<MemoryGroups::Group> MemoryGroups::ReadLimited() const {
  const GroupFiles& files = version_1_ ? kVersion1 : kVersion2;
  std::vector<Group> groups;
  for (const std::string& folder : folders_) {
    const uint64_t limit = ReadBytes(folder + files.limit);
    if (limit == kUnlimited || (machine_bytes_ > 0 && limit >= machine_bytes_)) continue;
    groups.push_back({.limit_bytes = limit,
                      .used_bytes = ReadBytes(folder + files.used),
                      .active_bytes = ReadEntry(folder + files.stat, files.active),
                      .inactive_bytes = ReadEntry(folder + files.stat, files.inactive)});
  }
  return groups;
}

MemoryUse MemoryGroups::Read() const {
  MemoryUse tightest{.own_bytes = ReadEntry(root_ + kStatusFile, "RssAnon:") * 1024};
  for (const Group& group : ReadLimited()) {
    const uint64_t files = group.active_bytes + group.inactive_bytes;
    const MemoryUse use{.limit_bytes = group.limit_bytes,
                        .group_bytes = group.used_bytes - std::min(files, group.used_bytes),
                        .own_bytes = tightest.own_bytes};
    if (tightest.limit_bytes == 0 || use.part() > tightest.part()) tightest = use;
  }
  return tightest;
}

uint64_t MemoryGroups::FreeBytes() const {
  uint64_t free = ReadEntry(root_ + kMachineFile, "MemAvailable:") * 1024;
  for (const Group& group : ReadLimited()) {
    const uint64_t used = group.used_bytes - std::min(group.inactive_bytes, group.used_bytes);
    free = std::min(free, group.limit_bytes - std::min(used, group.limit_bytes));
  }
  return free;
}

uint64_t FreeMemoryBytes() { return MemoryGroups().FreeBytes(); }

MemoryUse ReadMemoryUse() { return MemoryGroups().Read(); }

}  // namespace baton

// Returns how much memory this process has taken, and may still take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton {

// Memory that counts against a limit. Mapped and cached files do not count, since the kernel can
// read them again.
struct MemoryUse {
  uint64_t limit_bytes = 0;  // 0: there is none
  uint64_t group_bytes = 0;  // memory of all processes in the group
  uint64_t own_bytes = 0;    // memory of this process

  // How much of the memory that the others leave this process has taken, from 0 to 1.
  double part() const;
};

// The control groups that limit the memory of this process: its own and those above it, of version
// 2 or of version 1's memory controller, wherever they are mounted. A limit that is set on a group
// above, as systemd's MemoryMax= of a slice, holds for those below. Copyable; thread-safe.
class MemoryGroups {
 public:
  // Finds the groups. Files are looked up below `root`, which only tests give.
  explicit MemoryGroups(std::string root = "");

  // Returns the use of the group with the least room. If no group has a limit below the machine's
  // memory, only `own_bytes` is set.
  MemoryUse Read() const;
  // Returns the bytes that the machine has available, or that the groups leave if that is less.
  // Inactive cached files count as free. 0: unknown.
  uint64_t FreeBytes() const;
  // All memory of the machine. 0: unknown.
  uint64_t machine_bytes() const { return machine_bytes_; }

 private:
  struct Group {
    uint64_t limit_bytes = 0;
    uint64_t used_bytes = 0;      // with cached files
    uint64_t active_bytes = 0;    // recently used cached files
    uint64_t inactive_bytes = 0;  // other cached files
  };
  // Reads the groups that have a limit.
  std::vector<Group> ReadLimited() const;

  std::string root_;
  bool version_1_ = false;
  std::vector<std::string> folders_;  // folders of the control groups, the process's own first
  uint64_t machine_bytes_ = 0;
};

// MemoryGroups().FreeBytes().
uint64_t FreeMemoryBytes();
// MemoryGroups().Read().
MemoryUse ReadMemoryUse();

}  // namespace baton

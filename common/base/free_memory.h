// Tells how much memory this process has taken, and may still take.
#pragma once

#include <cstdint>

namespace baton {

// The bytes that the machine has available, or that the process's control group leaves if that is
// less. 0: unknown.
uint64_t FreeMemoryBytes();

// What counts against the limit of the process's control group. Files that are mapped or cached do
// not, for they can be read again.
struct MemoryUse {
  uint64_t limit_bytes = 0;  // 0: there is none
  uint64_t group_bytes = 0;  // memory of all processes in the group
  uint64_t own_bytes = 0;    // memory of this process

  // How much of the memory that the others leave this process has taken, from 0 to 1.
  double part() const;
};
// Without a limit the other numbers are not read.
MemoryUse ReadMemoryUse();

}  // namespace baton

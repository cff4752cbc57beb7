// The resident memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace baton {

// The bytes in a field of /proc/self/status, or of another file of that form: "VmRSS" (all resident
// memory), "VmHWM" (its peak), "RssFile" (mapped files), "RssAnon". -1 if there is no such field.
inline int64_t ProcessMemoryBytes(const std::string& field,
                                  const std::string& path = "/proc/self/status") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  return -1;
}

// Resets the peak VmHWM to what is resident now.
inline void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace baton

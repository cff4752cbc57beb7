// What of this process lies in memory, as the kernel counts it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace baton {

// A field of /proc/self/status, or of another file of that form: "VmRSS" (all), "VmHWM" (the most
// there was), "RssFile" (mapped files), "RssAnon". In bytes; -1 when there is no such field.
inline int64_t ProcessMemoryBytes(const std::string& field,
                                  const std::string& path = "/proc/self/status") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  return -1;
}

// VmHWM begins anew at what is resident now.
inline void ResetPeakMemory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace baton

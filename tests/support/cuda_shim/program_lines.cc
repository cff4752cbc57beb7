#include "tests/support/cuda_shim/program_lines.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>

namespace baton::cuda_shim {
namespace {

struct ClosePipe {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

// addr2line writes for each address "0x1234: FUNCTION at FILE:LINE", and then, for each function
// that this one was inlined into, " (inlined by) FUNCTION at FILE:LINE".
void AddLine(std::string line, std::vector<SourcePlace>& places) {
  while (!line.empty() && line.back() == '\n') line.pop_back();
  constexpr char kInlined[] = " (inlined by) ";
  const bool inlined = line.rfind(kInlined, 0) == 0;
  if (!inlined) places.emplace_back();
  if (places.empty()) return;
  const size_t name = inlined ? sizeof(kInlined) - 1 : line.find(": ") + 2;
  const size_t at = line.rfind(" at ");
  if (at == std::string::npos || at < name) return;
  std::string where = line.substr(at + 4);
  where = where.substr(where.rfind('/') + 1);
  where = where.substr(0, where.find(" (discriminator"));
  SourcePlace& place = places.back();
  place.function = line.substr(name, at - name);
  if (!place.lines.empty()) place.lines += " < ";
  place.lines += where;
}

}  // namespace

uint32_t ProgramOffset(const void* code) {
  static const uintptr_t begin = [] {
    Dl_info about = {};
    dladdr(reinterpret_cast<const void*>(&ProgramOffset), &about);
    return reinterpret_cast<uintptr_t>(about.dli_fbase);
  }();
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - begin);
}

std::vector<SourcePlace> PlacesOf(const std::vector<uint32_t>& offsets) {
  constexpr size_t kAtOnce = 1000;  // so that the command line stays short
  std::vector<SourcePlace> places;
  for (size_t first = 0; first < offsets.size(); first += kAtOnce) {
    const size_t end = std::min(first + kAtOnce, offsets.size());
    std::string command = "addr2line -Cfpia -e /proc/" + std::to_string(getpid()) + "/exe";
    for (size_t i = first; i < end; ++i) {
      char offset[16];
      std::snprintf(offset, sizeof(offset), " %#x", offsets[i]);
      command += offset;
    }
    const std::unique_ptr<FILE, ClosePipe> pipe(popen((command + " 2>/dev/null").c_str(), "r"));
    std::array<char, 1 << 14> line;
    while (pipe != nullptr &&
           std::fgets(line.data(), static_cast<int>(line.size()), pipe.get()) != nullptr) {
      AddLine(line.data(), places);
    }
    places.resize(end);
  }
  return places;
}

}  // namespace baton::cuda_shim

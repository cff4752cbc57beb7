// Where instructions of this program stand in the sources.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baton::cuda_shim {

// What a program of any place in memory calls an instruction: its bytes behind the program's begin.
uint32_t ProgramOffset(const void* code);

struct SourcePlace {
  std::string function;  // function with the inlined instruction, demangled
  std::string lines;     // "device.h:143 < decode_task.h:88": the innermost first
};
// By addr2line, which comes with the compiler. Fields are empty if it knows nothing. The places
// of the offsets, in their order.
std::vector<SourcePlace> PlacesOf(const std::vector<uint32_t>& offsets);

}  // namespace baton::cuda_shim

#include "tests/common/backend/cuda/access_budget.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "tests/support/cuda_shim/program_lines.h"

namespace baton {
namespace {

using cuda_shim::InstructionCounts;
using cuda_shim::KernelCounts;
using cuda_shim::MemorySpace;
using cuda_shim::Requests;
using cuda_shim::Traffic;

constexpr char kExplanation[] =
    R"(# What kernels cost in memory accesses, counted by tests/support/cuda_shim/access_counter.h: a launch a line. Written by
#   BATON_WRITE_ACCESS_BUDGET=1 build/dev/tests/cuda_access_test
# which also tells the instructions that cost more than the fewest. What differs from the kernels, to the better too, fails.
# device read, write: sectors of 32 bytes, and shared read, write: wavefronts. FEWEST+MORE: the fewest by which the bytes of each
#   access of a warp can be had, and how many there are more.
# bytes read, written: distinct bytes of device memory; how many blocks touch a byte, in the mean; how often each of them does.
# mma, ldmatrix: of warps; barriers: of blocks; exp: Exp2Approximate of threads.
)";

// "void baton::Name<baton::Type, 4>(baton::Args)" is "Name".
std::string ShortName(std::string name) {
  const size_t end = name.find_first_of("<(");
  name = name.substr(0, end);
  const size_t begin = name.find_last_of(": ");
  return begin == std::string::npos ? name : name.substr(begin + 1);
}

std::string Text(uint64_t value) { return std::to_string(value); }

std::string Text(const Requests& requests) {
  return Text(requests.fewest) + "+" + Text(requests.excess());
}

std::string Text(const Traffic& traffic) {
  const auto ratio = [](uint64_t a, uint64_t b) {
    return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
  };
  char text[80];
  std::snprintf(
      text, sizeof(text), "%llu x%.2f x%.2f", static_cast<unsigned long long>(traffic.distinct),
      ratio(traffic.block_bytes, traffic.distinct), ratio(traffic.bytes, traffic.block_bytes));
  return text;
}

std::vector<std::string> FieldsOf(const MeasuredLaunch& launch) {
  const KernelCounts& counts = launch.counts;
  std::vector<std::string> fields = {launch.what, launch.kernel,
                                     Text(uint64_t{counts.grid.x} * counts.grid.y * counts.grid.z)};
  for (const AccessColumn& column : kAccessColumns) {
    fields.push_back(Text(counts.All(column.space, column.kind)));
  }
  fields.push_back(Text(counts.read));
  fields.push_back(Text(counts.written));
  for (const uint64_t count :
       {counts.multiplications, counts.matrix_loads, counts.barriers, counts.exponentials}) {
    fields.push_back(Text(count));
  }
  return fields;
}

}  // namespace

void NameKernels(std::vector<MeasuredLaunch>& launches) {
  std::vector<uint32_t> offsets;
  for (const MeasuredLaunch& launch : launches) {
    offsets.push_back(cuda_shim::ProgramOffset(launch.counts.kernel));
  }
  const std::vector<cuda_shim::SourcePlace> places = cuda_shim::PlacesOf(offsets);
  for (size_t i = 0; i < launches.size(); ++i) {
    launches[i].kernel = ShortName(places[i].function);
  }
}

std::string TableOf(const std::vector<MeasuredLaunch>& launches) {
  std::vector<std::vector<std::string>> rows = {{"# operation", "kernel", "blocks"}};
  for (const AccessColumn& column : kAccessColumns) rows[0].push_back(column.name);
  for (const char* name : {"bytes read", "bytes written", "mma", "ldmatrix", "barriers", "exp"}) {
    rows[0].push_back(name);
  }
  for (const MeasuredLaunch& launch : launches) rows.push_back(FieldsOf(launch));
  std::string table = kExplanation;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      const std::string padding(width - row[i].size(), ' ');
      line += i < 2 ? row[i] + padding : padding + row[i];
      if (i + 1 < row.size()) line += "  ";
    }
    table += line + "\n";
  }
  return table;
}

std::string WastefulInstructions(const MeasuredLaunch& launch) {
  std::vector<InstructionCounts> wasteful;
  std::vector<uint32_t> codes;
  for (const InstructionCounts& instruction : launch.counts.instructions) {
    if (instruction.requests.excess() > 0) wasteful.push_back(instruction);
  }
  std::sort(wasteful.begin(), wasteful.end(),
            [](const InstructionCounts& a, const InstructionCounts& b) {
              return a.requests.excess() > b.requests.excess();
            });
  for (const InstructionCounts& instruction : wasteful) codes.push_back(instruction.code);
  const std::vector<cuda_shim::SourcePlace> places = cuda_shim::PlacesOf(codes);
  std::string text;
  for (size_t i = 0; i < wasteful.size(); ++i) {
    const InstructionCounts& instruction = wasteful[i];
    for (const AccessColumn& column : kAccessColumns) {
      if (column.space != instruction.space || column.kind != instruction.kind) continue;
      text += "  " + std::string(column.name) + " of " +
              Text(static_cast<uint64_t>(instruction.widest)) + " bytes, " +
              Text(instruction.executions) + " times: " + Text(instruction.requests) + ": " +
              places[i].lines + "\n";
    }
  }
  return text;
}

}  // namespace baton

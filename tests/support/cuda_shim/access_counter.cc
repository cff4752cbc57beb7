#include "tests/support/cuda_shim/access_counter.h"

#include <algorithm>
#include <bit>
#include <span>

#include "common/base/check.h"
#include "tests/support/cuda_shim/device_memory.h"
#include "tests/support/cuda_shim/program_lines.h"

namespace baton {

extern uint8_t shared_memory[];  // fibers.cc

namespace cuda_shim {
namespace {

constexpr size_t kPageSectors = 1024;
constexpr size_t kWidestAccess = 16;

uint64_t Bits(uint32_t bytes) { return static_cast<uint64_t>(std::popcount(bytes)); }

// The widest access that may begin there, of at most `bytes`.
size_t WidthAt(uintptr_t at, size_t bytes) {
  size_t width = kWidestAccess;
  while (width > bytes || at % width != 0) width /= 2;
  return width;
}

}  // namespace

Requests KernelCounts::All(MemorySpace space, AccessKind kind) const {
  Requests all;
  for (const InstructionCounts& instruction : instructions) {
    if (instruction.space == space && instruction.kind == kind) all += instruction.requests;
  }
  return all;
}

AccessCounts::AccessCounts() {
  BATON_CHECK(active_ == nullptr, "one counter at a time");
  active_ = this;
}

AccessCounts::~AccessCounts() { active_ = nullptr; }

void AccessCounts::LaunchBegins(const KernelLaunch& launch) {
  kernels_.push_back({.kernel = launch.kernel, .grid = launch.grid, .block = launch.block});
  shared_begin_ = reinterpret_cast<uintptr_t>(shared_memory);
  shared_bytes_ = launch.shared_bytes;
  const DeviceMemory::Range range = DeviceMemory::Get().range();
  device_begin_ = reinterpret_cast<uintptr_t>(range.begin);
  device_bytes_ = range.bytes;
  block_ = 0;
  const size_t threads = size_t{launch.block.x} * launch.block.y * launch.block.z;
  warps_.clear();
  warps_.resize((threads + kLanes - 1) / kLanes);
  instructions_.clear();
  sectors_.clear();
}

void AccessCounts::LaunchEnds() {
  const auto by_code = [](const InstructionCounts& a, const InstructionCounts& b) {
    return a.code < b.code;
  };
  std::sort(running().instructions.begin(), running().instructions.end(), by_code);
}

void AccessCounts::BarrierPassed() {
  ++running().barriers;
  EndAll();
}

void AccessCounts::WarpMeets() { End(warps_[static_cast<size_t>(ThreadNumber() / kLanes)]); }

void AccessCounts::Access(AccessKind kind, const void* data, size_t bytes, const void* code) {
  auto at = reinterpret_cast<uintptr_t>(data);
  const bool in_shared = at - shared_begin_ < shared_bytes_;
  if (!in_shared && at - device_begin_ >= device_bytes_) return;
  const MemorySpace space = in_shared ? MemorySpace::kShared : MemorySpace::kDevice;
  const auto thread = static_cast<size_t>(ThreadNumber());
  Warp& warp = warps_[thread / kLanes];
  const size_t lane = thread % kLanes;
  // The address behind a call may be that of another line.
  Pending& pending = PendingOf(warp, space, kind, ProgramOffset(code) - 1);
  do {  // at least once: a copy of no bytes is an execution too
    const size_t width = bytes == 0 ? 0 : WidthAt(at, bytes);
    const size_t execution = pending.next[lane]++;
    if (execution == pending.count) {
      if (++pending.count > pending.executions.size()) pending.executions.emplace_back();
      if (execution == 0) warp.in_use.push_back(&pending);
    }
    pending.executions[execution].at[lane] = at;
    pending.executions[execution].bytes[lane] = static_cast<uint8_t>(width);
    at += width;
    bytes -= width;
  } while (bytes > 0);
}

uint64_t AccessCounts::KeyOf(MemorySpace space, AccessKind kind, uint32_t code) {
  return uint64_t{code} << 2 | uint64_t{space == MemorySpace::kShared} << 1 |
         uint64_t{kind == AccessKind::kWrite};
}

AccessCounts::Pending& AccessCounts::PendingOf(Warp& warp, MemorySpace space, AccessKind kind,
                                               uint32_t code) {
  const uint64_t key = KeyOf(space, kind, code);
  const auto [found, is_new] = warp.pending.try_emplace(key);
  if (is_new) {
    std::vector<InstructionCounts>& all = running().instructions;
    const auto [instruction, unknown] = instructions_.try_emplace(key, all.size());
    if (unknown) all.push_back({.code = code, .space = space, .kind = kind});
    found->second.instruction = instruction->second;
  }
  return found->second;
}

void AccessCounts::EndAll() {
  for (Warp& warp : warps_) End(warp);
}

void AccessCounts::End(Warp& warp) {
  for (Pending* const pending : warp.in_use) {
    for (size_t i = 0; i < pending->count; ++i) {
      Count(running().instructions[pending->instruction], pending->executions[i]);
      pending->executions[i] = {};
    }
    pending->count = 0;
    std::fill(std::begin(pending->next), std::end(pending->next), 0);
  }
  warp.in_use.clear();
}

void AccessCounts::Count(InstructionCounts& instruction, const WarpAccess& access) {
  ++instruction.executions;
  const int widest = *std::max_element(std::begin(access.bytes), std::end(access.bytes));
  instruction.widest = std::max(instruction.widest, widest);
  if (instruction.space == MemorySpace::kShared) {
    instruction.requests += Wavefronts(access);
    return;
  }
  TouchedSector sectors[2 * kLanes];
  const std::span touched(sectors, FindSectors(access, sectors));
  instruction.requests += SectorRequests(touched);
  for (const TouchedSector& sector : touched) AddTraffic(instruction.kind, sector);
}

void AccessCounts::AddTraffic(AccessKind kind, const TouchedSector& touched) {
  const bool reads = kind == AccessKind::kRead;
  SectorUse& sector = UseOf(touched.sector);
  ByteUse& use = reads ? sector.read : sector.written;
  Traffic& traffic = reads ? running().read : running().written;
  if (use.block != block_) {
    use.block = block_;
    use.by_block = 0;
    traffic.most_blocks = std::max(traffic.most_blocks, ++use.blocks);
  }
  traffic.bytes += Bits(touched.bytes);
  traffic.block_bytes += Bits(touched.bytes & ~use.by_block);
  traffic.distinct += Bits(touched.bytes & ~use.ever);
  use.by_block |= touched.bytes;
  use.ever |= touched.bytes;
}

AccessCounts::SectorUse& AccessCounts::UseOf(uintptr_t sector) {
  std::unique_ptr<SectorUse[]>& page = sectors_[sector / kPageSectors];
  if (page == nullptr) page = std::make_unique<SectorUse[]>(kPageSectors);
  return page[sector % kPageSectors];
}

}  // namespace cuda_shim
}  // namespace baton

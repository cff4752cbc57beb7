#include "tests/support/cuda_shim/include/ptx.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/e4m3.h"
#include "common/base/float_types.h"
#include "tests/support/cuda_shim/access_counter.h"
#include "tests/support/cuda_shim/tensor_tiles.h"

namespace baton {
namespace {

using cuda_shim::AccessCounts;
using cuda_shim::AccessKind;
using cuda_shim::kLanes;
using cuda_shim::LaneData;
using cuda_shim::MeetInWarp;
using cuda_shim::MultiplyData;

// --- mma.m16n8k16

void Multiply(const char* collective, float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
              const std::source_location& site, void (*complete)(LaneData*)) {
  MultiplyData data;
  std::memcpy(data.a, a, sizeof(a));
  std::memcpy(data.b, b, sizeof(b));
  std::memcpy(data.d, d, sizeof(d));
  AccessCounts* const counts = AccessCounts::Active();
  if (counts != nullptr && cuda_shim::ThreadLane() == 0) ++counts->running().multiplications;
  const LaneData* const lanes =
      MeetInWarp(collective, 0xffffffffu, &data, sizeof(data), site, complete);
  std::memcpy(d, lanes[cuda_shim::ThreadLane()].bytes, sizeof(d));
}

// --- ldmatrix

// Each lane brings an address and takes kCount registers.
template <int kCount, bool kTransposed>
void LoadTiles(LaneData* lanes) {
  const uint8_t* rows[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) std::memcpy(&rows[lane], lanes[lane].bytes, 8);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int matrix = 0; matrix < kCount; ++matrix) {
      uint16_t pair[2];
      for (int i = 0; i < 2; ++i) {
        const int row = kTransposed ? lane % 4 * 2 + i : lane / 4;
        const int column = kTransposed ? lane / 4 : lane % 4 * 2 + i;
        std::memcpy(&pair[i], rows[matrix * 8 + row] + column * 2, 2);
      }
      std::memcpy(lanes[lane].bytes + matrix * 4, pair, 4);
    }
  }
}

// `code` is behind the call in the kernel.
template <int kCount, bool kTransposed>
void Load(uint32_t (&out)[kCount], const void* row, const std::source_location& site,
          const void* code) {
  constexpr const char* kName = "ldmatrix";
  cuda_shim::RequireShared(row, 16, kName);
  const int lane = cuda_shim::ThreadLane();
  if (lane < kCount * 8) cuda_shim::NoteRead(row, 16);
  if (AccessCounts* const counts = AccessCounts::Active()) {
    if (lane < kCount * 8) counts->Access(AccessKind::kRead, row, 16, code);
    if (lane == 0) ++counts->running().matrix_loads;
  }
  const LaneData* const lanes =
      MeetInWarp(kName, 0xffffffffu, &row, sizeof(row), site, &LoadTiles<kCount, kTransposed>);
  std::memcpy(out, lanes[cuda_shim::ThreadLane()].bytes, sizeof(out));
}

// `code` is behind the call in the kernel.
void BeginCopy(void* shared, const void* global, int bytes, int valid_bytes, const void* code) {
  cuda_shim::RequireShared(shared, static_cast<size_t>(bytes), "cp.async");
  if (reinterpret_cast<uintptr_t>(global) % static_cast<uintptr_t>(bytes) != 0) {
    cuda_shim::Fail("cp.async: %p is not a multiple of %d", global, bytes);
  }
  if (valid_bytes < 0 || valid_bytes > bytes) {
    cuda_shim::Fail("cp.async: %d valid bytes of %d", valid_bytes, bytes);
  }
  if (AccessCounts* const counts = AccessCounts::Active()) {
    counts->Access(AccessKind::kRead, global, static_cast<size_t>(valid_bytes), code);
    counts->Access(AccessKind::kWrite, shared, static_cast<size_t>(bytes), code);
  }
  cuda_shim::NoteWrite(shared, static_cast<size_t>(bytes));
  std::memset(shared, cuda_shim::kPoison, static_cast<size_t>(bytes));
  cuda_shim::AsyncCopies& copies = cuda_shim::ThreadAsyncCopies();
  copies.pending.push_back({shared, global, bytes, valid_bytes, copies.committed_groups});
}

}  // namespace

void CopyAsync16(void* shared, const void* global) {
  BeginCopy(shared, global, 16, 16, __builtin_return_address(0));
}

void CopyAsync16(void* shared, const void* global, int valid_bytes) {
  BeginCopy(shared, global, 16, valid_bytes, __builtin_return_address(0));
}

template <int kBytes>
void CopyAsync(void* shared, const void* global, bool valid) {
  BeginCopy(shared, global, kBytes, valid ? kBytes : 0, __builtin_return_address(0));
}
template void CopyAsync<4>(void*, const void*, bool);
template void CopyAsync<8>(void*, const void*, bool);
template void CopyAsync<16>(void*, const void*, bool);

void CommitCopies() { ++cuda_shim::ThreadAsyncCopies().committed_groups; }

void cuda_shim::WaitForCopies(int pending_groups) {
  AsyncCopies& copies = ThreadAsyncCopies();
  const int last_group = copies.committed_groups - pending_groups;  // exclusive
  auto& pending = copies.pending;
  size_t done = 0;
  for (; done < pending.size() && pending[done].group < last_group; ++done) {
    uint8_t bytes[16] = {};
    const auto& [to, from, size, valid, group] = pending[done];
    NoteRead(from, static_cast<size_t>(valid));
    NoteWrite(to, static_cast<size_t>(size));
    std::memcpy(bytes, from, static_cast<size_t>(valid));
    std::memcpy(to, bytes, static_cast<size_t>(size));
  }
  pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(done));
}

float Exp2Approximate(float x) {
  if (AccessCounts* const counts = AccessCounts::Active()) ++counts->running().exponentials;
  const float out = std::exp2(x);
  return std::fpclassify(out) == FP_SUBNORMAL ? 0 : out;
}

// As a GPU does it: a NaN's code becomes one.
void WidenE4m3(uint32_t codes, uint32_t (&halves)[2]) {
  uint16_t wide[4];
  for (int i = 0; i < 4; ++i) {
    const auto code = static_cast<uint8_t>(codes >> 8 * i);
    wide[i] = (code & 0x7fu) == 0x7fu ? 0x7fffu : F32ToF16(E4m3ToF32(code));
  }
  std::memcpy(halves, wide, sizeof(halves));
}

void PrefetchToL2(const void* global, int bytes) {
  const auto* const data = static_cast<const volatile uint8_t*>(global);
  if (bytes % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0) {
    cuda_shim::Fail("PrefetchToL2(%p, %d): not multiples of 16", global, bytes);
  }
  cuda_shim::NoteRead(global, static_cast<size_t>(bytes));
  for (int i = 0; i < bytes; i += 16) static_cast<void>(data[i]);
}

void MultiplyF16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                 const std::source_location& site) {
  Multiply("mma f16", d, a, b, site, &cuda_shim::MultiplyF16Tiles);
}
void MultiplyBf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                  const std::source_location& site) {
  Multiply("mma bf16", d, a, b, site, &cuda_shim::MultiplyBf16Tiles);
}
void LoadMatrices(uint32_t (&out)[4], const void* row, const std::source_location& site) {
  Load<4, false>(out, row, site, __builtin_return_address(0));
}
void LoadMatrices(uint32_t (&out)[2], const void* row, const std::source_location& site) {
  Load<2, false>(out, row, site, __builtin_return_address(0));
}
void LoadMatricesTransposed(uint32_t (&out)[4], const void* row, const std::source_location& site) {
  Load<4, true>(out, row, site, __builtin_return_address(0));
}
void LoadMatricesTransposed(uint32_t (&out)[2], const void* row, const std::source_location& site) {
  Load<2, true>(out, row, site, __builtin_return_address(0));
}

}  // namespace baton

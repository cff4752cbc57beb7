// How a kernel reads the rows of a weight: a chunk of 16 bytes of elements or codes at a time, and
// four columns of it as floats. A quantised value has the meaning that the file's format gives it,
// rounded as the CPU backend rounds it.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "ptx.h"

namespace baton {

// A Format has
//   kColumns               columns of a chunk
//   Chunk                  the data of a chunk that a thread holds
//   Load(row, columns, c)  chunk c of a row of `columns` columns. REQUIRES: it begins in the row
//   Quad(chunk, q)         the values of its columns 4q to 4q + 3
// and that of a quantised weight
//   LoadEight(row, columns, e)  an Eight, of which the first two quads are columns 8e to 8e + 7
// group_format.h has the formats of all other types but Q8_0.
template <CudaElement kElement>
struct WeightFormat;

// Word `word` of a chunk. With a constant `word`, the value stays in its register.
__device__ __forceinline__ uint32_t WordOf(const uint4& chunk, int word) {
  return word == 0 ? chunk.x : word == 1 ? chunk.y : word == 2 ? chunk.z : chunk.w;
}

// The lower 16 bits of `bits`, as F16.
__device__ __forceinline__ float HalfOf(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

// A code need not be moved to become a float. Where its lowest bit is bit `place` of a word, the
// exponent of BaseOf(place) beside it makes it BaseOf(place) + code.
__device__ __forceinline__ float BaseOf(int place) { return static_cast<float>(1 << (23 - place)); }
__device__ __forceinline__ uint32_t BaseBitsOf(int place) {
  return static_cast<uint32_t>(127 + 23 - place) << 23;
}

// scale * (code - kOffset), exactly, of a float base + code. REQUIRES: base + kOffset has at most
// 13 significant bits and the scale is a finite F16: then the constant of the FMA is exact. A zero
// is +0 whatever the scale's sign.
template <int kOffset>
__device__ __forceinline__ float ScaledCode(float base_and_code, float base, float scale) {
  return __fmaf_rn(base_and_code, scale, -(base + static_cast<float>(kOffset)) * scale);
}

// scale * the signed byte `i` of bytes whose highest bits are flipped, exactly. REQUIRES: the scale is
// a finite F16.
__device__ __forceinline__ float ScaledSignedByte(uint32_t flipped, uint32_t i, float scale) {
  constexpr int kPlace = 8;  // if the base has few bits
  const uint32_t bits = __byte_perm(flipped, BaseBitsOf(kPlace), 0x7404u | i << 4);
  return ScaledCode<128>(std::bit_cast<float>(bits), BaseOf(kPlace), scale);
}

// Entry `index` of a plane of entries T, in a weight or in a copy of a part of it.
enum class PlaneIn { kGlobal, kShared };
template <class T, PlaneIn kIn = PlaneIn::kGlobal>
__device__ __forceinline__ T LoadAt(const uint8_t* plane, uint32_t index) {
  const auto* const entry = reinterpret_cast<const T*>(plane) + index;
  return kIn == PlaneIn::kShared ? *entry : __ldg(entry);
}

// The 16 bytes of codes of chunk `chunk`.
template <PlaneIn kIn = PlaneIn::kGlobal>
__device__ __forceinline__ uint4 LoadCodes16(const uint8_t* codes, int chunk) {
  const uint8_t* const at = codes + 16 * static_cast<int64_t>(chunk);
  if constexpr (kIn == PlaneIn::kShared) return *reinterpret_cast<const uint4*>(at);
  return LoadStreamed16(at);
}

// The planes of a quantised row. One that the type does not have is where the next begins.
struct QuantisedRow {
  const uint8_t* codes;
  const uint8_t* high;
  const uint8_t* parts;
  const uint8_t* supers;
};
template <CudaElement kElement>
__device__ __forceinline__ QuantisedRow QuantisedRowAt(const uint8_t* begin, int columns) {
  const RowPlanes planes = PlanesOf(kElement, columns);
  return {begin, begin + planes.high, begin + planes.parts, begin + planes.supers};
}
// The same for a loop, which then loads from a plane by one addition, not three.
template <CudaElement kElement>
__device__ __forceinline__ QuantisedRow KeptRowAt(const uint8_t* begin, int columns) {
  QuantisedRow row = QuantisedRowAt<kElement>(begin, columns);
  row.codes = AsItIs(row.codes);
  row.parts = AsItIs(row.parts);
  if constexpr (HasHalfScales(kElement)) row.high = AsItIs(row.high);
  if constexpr (BlockColumns(kElement) > 32) row.supers = AsItIs(row.supers);
  return row;
}

template <CudaElement kElement>
struct FloatFormat {
  static constexpr int kColumns = ChunkColumns(kElement);
  using Chunk = uint4;
  static __device__ Chunk Load(const uint8_t* row, int /*columns*/, int chunk) {
    return LoadStreamed16(row + 16 * static_cast<int64_t>(chunk));
  }
};

template <>
struct WeightFormat<CudaElement::kF32> : FloatFormat<CudaElement::kF32> {
  static __device__ float4 Quad(const Chunk& chunk, int /*quad*/) {
    return make_float4(std::bit_cast<float>(chunk.x), std::bit_cast<float>(chunk.y),
                       std::bit_cast<float>(chunk.z), std::bit_cast<float>(chunk.w));
  }
};

template <>
struct WeightFormat<CudaElement::kF16> : FloatFormat<CudaElement::kF16> {
  static __device__ float4 Quad(const Chunk& chunk, int quad) {
    const uint32_t low = WordOf(chunk, 2 * quad);
    const uint32_t high = WordOf(chunk, 2 * quad + 1);
    return make_float4(HalfOf(low), HalfOf(low >> 16), HalfOf(high), HalfOf(high >> 16));
  }
};

template <>
struct WeightFormat<CudaElement::kBf16> : FloatFormat<CudaElement::kBf16> {
  static __device__ float4 Quad(const Chunk& chunk, int quad) {
    const uint32_t low = WordOf(chunk, 2 * quad);
    const uint32_t high = WordOf(chunk, 2 * quad + 1);
    return make_float4(std::bit_cast<float>(low << 16), std::bit_cast<float>(low & 0xffff0000u),
                       std::bit_cast<float>(high << 16), std::bit_cast<float>(high & 0xffff0000u));
  }
};

template <>
struct WeightFormat<CudaElement::kQ8_0> {
  static constexpr int kColumns = ChunkColumns(CudaElement::kQ8_0);
  struct Chunk {
    uint4 codes;
    uint32_t scale;
  };
  static __device__ Chunk Load(const uint8_t* row, int columns, int chunk) {
    const RowPlanes planes = PlanesOf(CudaElement::kQ8_0, columns);
    return {LoadStreamed16(row + 16 * static_cast<int64_t>(chunk)),
            LoadAt<uint16_t>(row + planes.parts, chunk / 2)};
  }
  using Eight = Chunk;
  static __device__ Eight LoadEight(const uint8_t* row, int columns, int eight) {
    const RowPlanes planes = PlanesOf(CudaElement::kQ8_0, columns);
    const uint2 codes = LoadAt<uint2>(row, eight);
    return {{codes.x, codes.y, 0, 0}, LoadAt<uint16_t>(row + planes.parts, eight / 4)};
  }
  static __device__ float4 Quad(const Chunk& chunk, int quad) {
    const float scale = HalfOf(chunk.scale);
    const uint32_t codes = WordOf(chunk.codes, quad) ^ 0x80808080u;  // each code plus 128
    return make_float4(ScaledSignedByte(codes, 0, scale), ScaledSignedByte(codes, 1, scale),
                       ScaledSignedByte(codes, 2, scale), ScaledSignedByte(codes, 3, scale));
  }
};

}  // namespace baton

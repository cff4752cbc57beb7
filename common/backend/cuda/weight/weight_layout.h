// How a weight matrix lies in device memory: row after row, each beginning at a multiple of 16
// bytes and padded with zeros.
//
// F32, F16, BF16: a row is its elements. Quantised: a row has the file's values in up to four
// planes, each beginning at a multiple of 16 bytes, so that a thread reads 16 bytes of codes at
// once:
//   codes   Q8_0: a signed byte per column. Other types: 4 bits per column, in groups. Padded to
//           whole groups of 128 columns.
//   high    Q6_K: 2 more bits per column, in groups.
//   parts   One entry per 32 columns. Q8_0, Q4_0: scale (F16). Q4_1: scale, min (F16). Q4_K: scale,
//           min (unsigned bytes). Q6_K: the scales of both halves (signed bytes). MXFP4: the
//           exponent (an unsigned byte).
//   supers  One entry per 256 columns. Q4_K: scale, min (F16). Q6_K: scale (F16).
//
// A group has the codes of 128 columns, four blocks of 32, in 16 words. Word 4t + b has columns 8t
// to 8t + 7 of block b, so the 16 bytes that one of four lanes reads have its eight columns of each
// block. Of these eight, columns 0, 2, 4 and 6 are the word's nibbles from the lowest on, and 1, 3, 5
// and 7 the nibbles 16 bits above them: after a shift and a mask two neighbours are the halves of a
// register. An MXFP4 code is a sign and three bits of magnitude: the magnitudes of the eight columns
// are the lowest three bits of the word's nibbles, in their order, and the signs of columns 2i and
// 2i + 1 are bits 4i + 3 and 4i + 19.
//
// Q6_K has a scale for 16 columns. So that lanes read those of both halves of a block side by side,
// word 4t + b has columns 4t to 4t + 3 and 16 + 4t to 16 + 4t + 3 of block b. Of these eight, the
// lower half of the word has the even ones and the upper half the odd ones, each half the six bits of
// its first code, those of its second, and the lowest four of its third. A byte for each half has the
// six bits of the fourth code and the upper two of the third; those of block b are byte b % 2 of both
// halves of the lane's word b / 2 in the plane `high`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/device/operands.h"

namespace baton {

// Bytes of an element. REQUIRES: `element` is not quantised.
constexpr size_t ElementBytes(CudaElement element) { return element == CudaElement::kF32 ? 4 : 2; }

// Columns of a chunk: those whose elements or codes are 16 bytes.
constexpr int ChunkColumns(CudaElement element) {
  switch (element) {
    case CudaElement::kF32:
      return 4;
    case CudaElement::kF16:
    case CudaElement::kBf16:
      return 8;
    case CudaElement::kQ8_0:
      return 16;
    default:
      return 32;
  }
}

// Columns of a block in a file. A row has a multiple of them.
constexpr int BlockColumns(CudaElement element) {
  if (!IsQuantised(element)) return 1;
  return element == CudaElement::kQ4_K || element == CudaElement::kQ6_K ? 256 : 32;
}

// Whether the codes of the type lie in groups.
constexpr bool HasCodeGroups(CudaElement element) {
  return element == CudaElement::kQ4_0 || element == CudaElement::kQ4_1 ||
         element == CudaElement::kQ4_K || element == CudaElement::kQ6_K ||
         element == CudaElement::kMxfp4;
}
inline constexpr int kGroupColumns = 128;
// Whether a value of such a type is scale * code + min, without a min otherwise.
constexpr bool HasMin(CudaElement element) {
  return element == CudaElement::kQ4_1 || element == CudaElement::kQ4_K;
}

// Whether the halves of a block, 16 columns, have scales of their own.
constexpr bool HasHalfScales(CudaElement element) { return element == CudaElement::kQ6_K; }

// Where the planes of a quantised row begin, in bytes from the row's beginning. `codes` are at 0.
struct RowPlanes {
  uint32_t high = 0;
  uint32_t parts = 0;
  uint32_t supers = 0;
  uint32_t end = 0;
};

// Bytes of an entry of the planes `parts` and `supers`.
constexpr int PartBytes(CudaElement element) {
  return element == CudaElement::kQ4_1 ? 4 : element == CudaElement::kMxfp4 ? 1 : 2;
}
constexpr int SuperBytes(CudaElement element) {
  return element == CudaElement::kQ4_K ? 4 : element == CudaElement::kQ6_K ? 2 : 0;
}

constexpr RowPlanes PlanesOf(CudaElement element, int columns) {
  const auto padded = [](int bytes) { return (static_cast<uint32_t>(bytes) + 15u) / 16u * 16u; };
  const bool has_high = element == CudaElement::kQ6_K;
  RowPlanes planes;
  const int groups = (columns + kGroupColumns - 1) / kGroupColumns;
  planes.high = padded(groups * (HasCodeGroups(element) ? kGroupColumns / 2 : kGroupColumns));
  planes.parts = planes.high + padded(has_high ? columns / 4 : 0);
  planes.supers = planes.parts + padded(columns / 32 * PartBytes(element));
  planes.end = planes.supers + padded(columns / 256 * SuperBytes(element));
  return planes;
}

// Bytes from one row of a CudaMatrix to the next.
constexpr size_t CudaRowBytes(CudaElement element, int columns) {
  if (IsQuantised(element)) return PlanesOf(element, columns).end;
  return (static_cast<size_t>(columns) * ElementBytes(element) + 15) / 16 * 16;
}

}  // namespace baton

#include "common/backend/cpu/cpu_weight.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cpu/memory.h"
#include "common/base/float_types.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

uint16_t Load16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// How the file stores a row of the type.
constexpr size_t kQ4_0Bytes =
    18;  // scale f16, 16 bytes: column j in the low nibble, j + 16 in the high one
constexpr size_t kQ4_1Bytes = 20;  // scale f16, min f16, 16 bytes as above
constexpr size_t kQ8_0Bytes = 34;  // scale f16, 32 signed bytes

// The 4-bit code of `column` (within its block) among the file's 16 bytes.
uint32_t FileNibble(const uint8_t* bytes, int column) {
  return column < 16 ? bytes[column] & 15u : bytes[column - 16] >> 4;
}

void PackNibbles(const uint8_t* bytes, int lane, uint16_t (&codes)[8][kLanes]) {
  for (int k = 0; k < 8; ++k) {
    codes[k][lane] =
        static_cast<uint16_t>(FileNibble(bytes, k) | FileNibble(bytes, k + 8) << 4 |
                              FileNibble(bytes, k + 16) << 8 | FileNibble(bytes, k + 24) << 12);
  }
}

void PackBlock(const uint8_t* file, int lane, Q4_0Block& block) {
  block.scale[lane] = F16ToF32(Load16(file));
  PackNibbles(file + 2, lane, block.codes);
}

void PackBlock(const uint8_t* file, int lane, Q4_1Block& block) {
  block.scale[lane] = F16ToF32(Load16(file));
  block.min[lane] = F16ToF32(Load16(file + 2));
  PackNibbles(file + 4, lane, block.codes);
}

void PackBlock(const uint8_t* file, int lane, Q8_0Block& block) {
  block.scale[lane] = F16ToF32(Load16(file));
  for (int k = 0; k < 16; ++k) {
    const uint32_t low = static_cast<uint8_t>(file[2 + k] + 128);
    const uint32_t high = static_cast<uint8_t>(file[2 + k + 16] + 128);
    block.codes[k][lane] = static_cast<uint16_t>(low | high << 8);
  }
}

// One row of the file into lane `lane` of its group.
template <class Block>
void PackRow(const uint8_t* file, size_t file_block_bytes, int blocks, int lane, uint8_t* group) {
  Block* out = reinterpret_cast<Block*>(group);
  for (int b = 0; b < blocks; ++b) {
    PackBlock(file + static_cast<size_t>(b) * file_block_bytes, lane, out[b]);
  }
}

template <class Element>
void PackFloatRow(const uint8_t* file, int columns, int lane, uint8_t* group) {
  for (int k = 0; k < columns; ++k) {
    std::memcpy(group + static_cast<size_t>(k * kLanes + lane) * sizeof(Element),
                file + static_cast<size_t>(k) * sizeof(Element), sizeof(Element));
  }
}

void PackAnyRow(GgmlType type, const uint8_t* file, int columns, int lane, uint8_t* group) {
  const int blocks = columns / kQuantBlock;
  switch (type) {
    case GgmlType::kQ4_0:
      return PackRow<Q4_0Block>(file, kQ4_0Bytes, blocks, lane, group);
    case GgmlType::kQ4_1:
      return PackRow<Q4_1Block>(file, kQ4_1Bytes, blocks, lane, group);
    case GgmlType::kQ8_0:
      return PackRow<Q8_0Block>(file, kQ8_0Bytes, blocks, lane, group);
    case GgmlType::kF32:
      return PackFloatRow<float>(file, columns, lane, group);
    default:  // F16, BF16: see GroupBytes
      return PackFloatRow<uint16_t>(file, columns, lane, group);
  }
}

// Bytes of a packed group; 0 for a type that is not supported.
size_t GroupBytes(GgmlType type, size_t columns) {
  switch (type) {
    case GgmlType::kF32:
      return columns * kLanes * sizeof(float);
    case GgmlType::kF16:
    case GgmlType::kBf16:
      return columns * kLanes * sizeof(uint16_t);
    case GgmlType::kQ4_0:
      return columns / kQuantBlock * sizeof(Q4_0Block);
    case GgmlType::kQ4_1:
      return columns / kQuantBlock * sizeof(Q4_1Block);
    case GgmlType::kQ8_0:
      return columns / kQuantBlock * sizeof(Q8_0Block);
    default:
      return 0;
  }
}

}  // namespace

CpuWeight::CpuWeight(const GgufTensor& tensor, size_t group_bytes, BackendBuffer data)
    : Weight(static_cast<int>(tensor.dims[1]), static_cast<int>(tensor.dims[0])),
      type_(tensor.type),
      group_bytes_(group_bytes),
      data_(std::move(data)) {}

absl::StatusOr<std::unique_ptr<CpuWeight>> CpuWeight::Pack(const GgufTensor& tensor,
                                                           ThreadPool& pool) {
  if (tensor.dims.size() != 2 || tensor.dims[0] == 0 || tensor.dims[1] == 0 ||
      tensor.dims[0] > INT_MAX / 64 || tensor.dims[1] > INT_MAX / 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "': must be a matrix of a reasonable size"));
  }
  const size_t group_bytes = GroupBytes(tensor.type, tensor.dims[0]);
  if (group_bytes == 0) {
    return absl::UnimplementedError(
        absl::StrCat("tensor '", tensor.name, "': type ", GgmlTypeName(tensor.type),
                     " is not supported; supported are F32, F16, BF16, Q8_0, Q4_0 and Q4_1"));
  }
  const size_t groups = (tensor.dims[1] + kLanes - 1) / kLanes;
  BATON_ASSIGN_OR_RETURN(BackendBuffer data, AllocateCpuMemory(groups * group_bytes));
  const int rows = static_cast<int>(tensor.dims[1]);
  const int columns = static_cast<int>(tensor.dims[0]);
  const size_t row_bytes = tensor.data.size() / tensor.dims[1];
  pool.ParallelFor(static_cast<int>(groups), [&](int begin, int end) {
    for (int row = begin * kLanes; row < std::min(end * kLanes, rows); ++row) {
      PackAnyRow(tensor.type, tensor.data.data() + static_cast<size_t>(row) * row_bytes, columns,
                 row % kLanes, data.data() + static_cast<size_t>(row / kLanes) * group_bytes);
    }
  });
  return std::unique_ptr<CpuWeight>(new CpuWeight(tensor, group_bytes, std::move(data)));
}

void CpuWeight::Dequantise(int row, float* out) const {
  const int group = row / kLanes;
  const int lane = row % kLanes;
  for (int column = 0; column < columns(); ++column) {
    const int b = column / kQuantBlock;
    const int k = column % kQuantBlock;
    const size_t flat = static_cast<size_t>(column) * kLanes + static_cast<size_t>(lane);
    switch (type_) {
      case GgmlType::kF32:
        out[column] = Group<float>(group)[flat];
        break;
      case GgmlType::kF16:
        out[column] = F16ToF32(Group<uint16_t>(group)[flat]);
        break;
      case GgmlType::kBf16:
        out[column] = Bf16ToF32(Group<uint16_t>(group)[flat]);
        break;
      case GgmlType::kQ4_0: {
        const Q4_0Block& block = Group<Q4_0Block>(group)[b];
        const int code = block.codes[k % 8][lane] >> (k / 8 * 4) & 15;
        out[column] = block.scale[lane] * static_cast<float>(code - 8);
        break;
      }
      case GgmlType::kQ4_1: {
        const Q4_1Block& block = Group<Q4_1Block>(group)[b];
        const int code = block.codes[k % 8][lane] >> (k / 8 * 4) & 15;
        out[column] = std::fma(block.scale[lane], static_cast<float>(code), block.min[lane]);
        break;
      }
      default: {  // Q8_0
        const Q8_0Block& block = Group<Q8_0Block>(group)[b];
        const int code = block.codes[k % 16][lane] >> (k / 16 * 8) & 255;
        out[column] = block.scale[lane] * static_cast<float>(code - 128);
        break;
      }
    }
  }
}

}  // namespace baton

// A weight matrix with random values, on the device and as the floats that its file means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "common/backend/cpu/product/cpu_weight.h"
#include "common/backend/cuda/weight/pack_rows.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/float_types.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {

// The layout of a weight's file, for each element type.
struct TestElement {
  CudaElement element;
  GgmlType type;
  std::vector<size_t> half_offsets;  // offsets of a block's F16 values
};
inline const std::vector<TestElement> kTestElements = {
    {CudaElement::kF32, GgmlType::kF32, {}},       {CudaElement::kF16, GgmlType::kF16, {0}},
    {CudaElement::kBf16, GgmlType::kBf16, {}},     {CudaElement::kQ8_0, GgmlType::kQ8_0, {0}},
    {CudaElement::kQ4_0, GgmlType::kQ4_0, {0}},    {CudaElement::kQ4_1, GgmlType::kQ4_1, {0, 2}},
    {CudaElement::kQ4_K, GgmlType::kQ4_K, {0, 2}}, {CudaElement::kQ6_K, GgmlType::kQ6_K, {208}},
    {CudaElement::kMxfp4, GgmlType::kMxfp4, {}},
};
inline const std::vector<TestElement> kFloatElements(kTestElements.begin(),
                                                     kTestElements.begin() + 3);
inline const std::vector<TestElement> kQuantisedElements(kTestElements.begin() + 3,
                                                         kTestElements.end());
inline const TestElement& TestElementOf(GgmlType type) {
  return *std::find_if(kTestElements.begin(), kTestElements.end(),
                       [type](const TestElement& element) { return element.type == type; });
}

// `columns`, rounded up to a number of columns that the type's blocks allow.
inline int WholeBlocks(const TestElement& element, int columns) {
  const int block = BlockColumns(element.element);
  return (columns + block - 1) / block * block;
}

// The bytes of a CudaMatrix with the rows of a file.
inline std::vector<uint8_t> LaidOut(CudaElement element, const std::vector<uint8_t>& file,
                                    size_t rows, int columns) {
  const size_t row_bytes = CudaRowBytes(element, columns);
  std::vector<uint8_t> bytes(rows * row_bytes, 0);
  if (IsQuantised(element)) {
    const DeviceArray<uint8_t> from(file);
    const DeviceArray<uint8_t> to(std::vector<uint8_t>(bytes.size(), 0xaa));
    LaunchPackRows(element, from.data(), rows, columns, to.data(), nullptr);
    return to.Download();
  }
  const size_t file_row = file.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(&bytes[row * row_bytes], &file[row * file_row], file_row);
  }
  return bytes;
}

class TestMatrix {
 public:
  // REQUIRES: `columns` are whole blocks.
  TestMatrix(const TestElement& element, int rows, int columns, std::mt19937& random)
      : element_(element.element),
        rows_(rows),
        columns_(columns),
        file_(RandomFile(element, rows, columns, random)),
        device_(LaidOut(element.element, file_, static_cast<size_t>(rows), columns)) {
    ThreadPool pool(1, {});
    CpuMemory memory;
    const auto weight = CpuWeight::Pack(FileTensor(), pool, memory);
    BATON_CHECK(weight.ok(), "a weight of the CPU");
    values_.resize(static_cast<size_t>(rows * columns));
    for (int row = 0; row < rows; ++row) {
      (*weight)->Dequantise(row, &values_[static_cast<size_t>(row * columns)]);
    }
  }

  int rows() const { return rows_; }
  CudaMatrix Matrix() const {
    return {.data = device_.data(), .element = element_, .rows = rows_, .columns = columns_};
  }
  float Value(int row, int column) const {
    return values_[static_cast<size_t>(row * columns_ + column)];
  }
  const std::vector<float>& values() const { return values_; }  // [rows, columns]
  // The tensor as in a file; borrowed.
  GgufTensor FileTensor() const {
    return {"random.weight",
            TypeOf(element_),
            {static_cast<uint64_t>(columns_), static_cast<uint64_t>(rows_)},
            file_};
  }

 private:
  static GgmlType TypeOf(CudaElement element) {
    for (const TestElement& known : kTestElements) {
      if (known.element == element) return known.type;
    }
    BATON_CHECK(false, "the element must be a known type");
  }

  template <class T>
  static void Put(T value, size_t offset, std::vector<uint8_t>& bytes) {
    std::memcpy(&bytes[offset], &value, sizeof(value));
  }

  static std::vector<uint8_t> RandomFile(const TestElement& element, int rows, int columns,
                                         std::mt19937& random) {
    const GgmlBlock block = *GgmlBlockOf(element.type);
    std::normal_distribution<float> normal(0, 1);
    std::vector<uint8_t> bytes(static_cast<size_t>(rows) * static_cast<size_t>(columns) /
                               block.elements * block.bytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    for (size_t start = 0; start < bytes.size(); start += block.bytes) {
      if (element.type == GgmlType::kF32) Put(normal(random), start, bytes);
      if (element.type == GgmlType::kBf16) Put(F32ToBf16(normal(random)), start, bytes);
      // Exponents as far from 127 as those of a model's weights.
      if (element.type == GgmlType::kMxfp4) Put<uint8_t>(120 + random() % 8, start, bytes);
      for (const size_t offset : element.half_offsets) {
        Put(F32ToF16(normal(random)), start + offset, bytes);
      }
    }
    return bytes;
  }

  CudaElement element_;
  int rows_;
  int columns_;
  std::vector<uint8_t> file_;
  std::vector<float> values_;
  DeviceArray<uint8_t> device_;
};

}  // namespace baton

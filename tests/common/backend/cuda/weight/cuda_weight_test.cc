#include "common/backend/cuda/weight/cuda_weight.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/backend/cuda/product/library/dequantise.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<BackendBuffer> AllocateZeroed(size_t bytes) {
  void* data = nullptr;
  BATON_CHECK(cudaMalloc(&data, bytes) == cudaSuccess, "the call on device memory must succeed");
  BATON_CHECK(cudaMemset(data, 0, bytes) == cudaSuccess, "the call on device memory must succeed");
  BATON_CHECK(cudaDeviceSynchronize() == cudaSuccess, "the call on device memory must succeed");
  return BackendBuffer(static_cast<uint8_t*>(data), bytes, [](uint8_t* p) { cudaFree(p); });
}

absl::StatusOr<std::unique_ptr<CudaWeight>> LoadWeight(const GgufTensor& tensor) {
  WeightUpload upload(0, {.count = 3});
  return CudaWeight::Load(tensor, AllocateZeroed, upload);
}

std::vector<uint8_t> DeviceBytes(const CudaWeight& weight) {
  std::vector<uint8_t> bytes(weight.size_bytes());
  BATON_CHECK(cudaMemcpy(bytes.data(), weight.Matrix().data, bytes.size(),
                         cudaMemcpyDeviceToHost) == cudaSuccess,
              "copy from the device");
  return bytes;
}

TEST(CudaWeight, KeepsTheFilesElementsInRowsOf16Bytes) {
  std::mt19937 random(1);
  for (const TestElement& element : kFloatElements) {
    for (const int columns : {1, 8, 13, 64}) {
      constexpr int kRows = 7;
      const TestMatrix file(element, kRows, columns, random);
      const auto weight = LoadWeight(file.FileTensor());
      ASSERT_TRUE(weight.ok()) << weight.status();
      const CudaMatrix matrix = (*weight)->Matrix();
      EXPECT_EQ(matrix.element, element.element);
      EXPECT_EQ(matrix.rows, kRows);
      EXPECT_EQ(matrix.columns, columns);
      const size_t row_bytes = CudaRowBytes(matrix.element, columns);
      const size_t file_row = static_cast<size_t>(columns) * ElementBytes(matrix.element);
      EXPECT_EQ(row_bytes % 16, 0u);
      const std::vector<uint8_t> device = DeviceBytes(**weight);
      ASSERT_EQ(device.size(), kRows * row_bytes);
      for (size_t row = 0; row < kRows; ++row) {
        EXPECT_EQ(std::memcmp(&device[row * row_bytes], &file.FileTensor().data[row * file_row],
                              file_row),
                  0);
        for (size_t i = file_row; i < row_bytes; ++i) EXPECT_EQ(device[row * row_bytes + i], 0);
      }
    }
  }
}

TEST(CudaWeight, KeepsQuantisedTypesQuantised) {
  std::mt19937 random(2);
  for (const TestElement& element : kQuantisedElements) {
    const TestMatrix file(element, 5, 1024, random);
    const auto weight = LoadWeight(file.FileTensor());
    ASSERT_TRUE(weight.ok()) << weight.status();
    EXPECT_EQ(*CudaWeight::DeviceBytes(file.FileTensor()), (*weight)->size_bytes());
    // Nothing but the padding of the planes is added.
    EXPECT_LE((*weight)->size_bytes(), file.FileTensor().data.size() * 21 / 20);
    const DeviceArray<float> values(std::vector<float>(5 * 1024));
    LaunchDequantise((*weight)->Matrix(), 0, 5, CudaElement::kF32, values.data(), nullptr);
    EXPECT_EQ(values.Download(), file.values()) << GgmlTypeName(element.type);
  }
}

// The words and nibbles that the head of weight_layout.h names, in a last group of two blocks.
TEST(CudaWeight, PutsFourBitCodesIntoGroups) {
  constexpr int kColumns = 192;
  const auto code_of = [](int column) {
    return column < kColumns ? (column * 7 + column / 32) % 16 : 0;
  };
  std::vector<uint8_t> file;
  for (int first = 0; first < kColumns; first += 32) {
    file.insert(file.end(), {0, 0x3c});  // the scale 1
    for (int j = 0; j < 16; ++j) {
      file.push_back(static_cast<uint8_t>(code_of(first + j) | code_of(first + 16 + j) << 4));
    }
  }
  const std::vector<uint8_t> row = LaidOut(CudaElement::kQ4_0, file, 1, kColumns);
  EXPECT_EQ(row.size(), 128u + 16);
  for (int column = 0; column < 256; ++column) {
    const int block = column % 128 / 32;
    const int t = column % 32 / 8;
    uint32_t word;
    std::memcpy(&word, &row[static_cast<size_t>(column / 128 * 64 + (4 * t + block) * 4)], 4);
    const int shift = column % 8 / 2 * 4 + column % 2 * 16;
    EXPECT_EQ(word >> shift & 15, static_cast<uint32_t>(code_of(column))) << column;
  }
}

TEST(CudaWeight, LaysOutMoreRowsThanFitThePinnedMemory) {
  constexpr uint64_t kRows = 600'000;
  std::vector<uint8_t> file(kRows * sizeof(float));
  for (size_t row = 0; row < kRows; ++row) std::memcpy(&file[row * 4], &row, 4);
  const auto weight = LoadWeight({"a.weight", GgmlType::kF32, {1, kRows}, file});
  ASSERT_TRUE(weight.ok()) << weight.status();
  const std::vector<uint8_t> device = DeviceBytes(**weight);
  for (size_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(std::memcmp(&device[row * 16], &file[row * 4], 4), 0);
  }
}

TEST(CudaWeight, RefusesOtherTypesByName) {
  const GgufTensor q2_k = {"blk.0.attn_q.weight", static_cast<GgmlType>(10), {256, 16}, {}};
  const auto weight = LoadWeight(q2_k);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CudaWeight::DeviceBytes(q2_k).status(), weight.status());
  EXPECT_THAT(std::string(weight.status().message()),
              AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("Q2_K"), HasSubstr("Q4_K")));
}

TEST(CudaWeight, RefusesWhatIsNoMatrixOfWholeBlocks) {
  for (const std::vector<uint64_t>& dims : {std::vector<uint64_t>{256}, {48, 4}}) {
    const auto weight = LoadWeight({"norm", GgmlType::kQ8_0, dims, {}});
    EXPECT_EQ(weight.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(CudaWeight, RefusesAnMxfp4ScaleThatIsNoNumberWhicheverThreadFindsIt) {
  constexpr size_t kRows = 30'000;  // more than a piece for each thread
  std::vector<uint8_t> file(kRows * 2 * 17, 127);
  const auto load = [&] { return LoadWeight({"ffn_up", GgmlType::kMxfp4, {64, kRows}, file}); };
  EXPECT_TRUE(load().ok());
  for (const size_t row : {size_t{0}, size_t{2}, kRows / 2, kRows - 1}) {
    file[(row * 2 + 1) * 17] = 255;
    const auto weight = load();
    file[(row * 2 + 1) * 17] = 127;
    EXPECT_EQ(weight.status().code(), absl::StatusCode::kInvalidArgument) << row;
    EXPECT_THAT(std::string(weight.status().message()),
                AllOf(HasSubstr("ffn_up"), HasSubstr("MXFP4"), HasSubstr("255")));
  }
}

TEST(CudaWeight, PassesOnThatThereIsNoMemory) {
  const std::vector<uint8_t> file(64);
  WeightUpload upload(0, {});
  const auto weight = CudaWeight::Load(
      {"a.weight", GgmlType::kF32, {4, 4}, file},
      [](size_t) -> absl::StatusOr<BackendBuffer> { return absl::ResourceExhaustedError("full"); },
      upload);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton

#include "common/backend/cuda/weight/weight_upload.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/backend/cuda/weight/weight_layout.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"

namespace baton {
namespace {

// A file of random blocks. Its bytes are below 128, so each of them may be the exponent of MXFP4.
struct RandomRows {
  RandomRows(const TestElement& element, size_t row_count, int columns) {
    const GgmlBlock block = *GgmlBlockOf(element.type);
    rows = {.element = element.element,
            .rows = row_count,
            .columns = columns,
            .row_bytes = static_cast<size_t>(columns) / block.elements * block.bytes};
    std::minstd_rand random(1);
    bytes.resize(row_count * rows.row_bytes);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 8 & 127);
    rows.data = bytes.data();
  }
  RandomRows(const RandomRows&) = delete;

  size_t device_row_bytes() const { return CudaRowBytes(rows.element, rows.columns); }
  // What is on the device when the whole file is laid out at once.
  std::vector<uint8_t> Expected() const {
    return LaidOut(rows.element, bytes, rows.rows, rows.columns);
  }

  std::vector<uint8_t> bytes;
  FileRows rows;
};

// The rows on the device, in memory that was full of other bytes.
std::vector<uint8_t> Uploaded(const RandomRows& file, WeightUpload& upload) {
  const DeviceArray<uint8_t> device(file.rows.rows * file.device_row_bytes());
  const absl::StatusOr<bool> valid = upload.Copy(file.rows, device.data());
  EXPECT_TRUE(valid.ok() && *valid) << valid.status();
  return device.Download();
}

class WeightUploadTest : public testing::Test {
 protected:
  // The device copies as late as it may: whoever does not wait for it overwrites what it copies.
  WeightUploadTest() { cuda_shim::SetStreamsWait(true); }
  ~WeightUploadTest() override { cuda_shim::SetStreamsWait(false); }
};

TEST_F(WeightUploadTest, GivesTheBytesOfTheWholeFileForEveryTypeWhateverTheThreads) {
  constexpr size_t kBytes = size_t{3} << 20;  // several pieces for each thread
  for (const TestElement& element : kTestElements) {
    // Rows with padding, if the type has any: 300 F16 elements, a group of 64 codes.
    const int columns = IsQuantised(element.element) ? WholeBlocks(element, 320) : 300;
    const RandomRows file(element, kBytes / CudaRowBytes(element.element, columns), columns);
    const std::vector<uint8_t> expected = file.Expected();
    for (const int threads : {1, 2, 5}) {
      WeightUpload upload(0, {.count = threads});
      EXPECT_TRUE(Uploaded(file, upload) == expected)
          << GgmlTypeName(element.type) << ", " << threads << " threads";
    }
  }
}

TEST_F(WeightUploadTest, UploadsOneMatrixAfterTheOtherOfAnySize) {
  WeightUpload upload(0, {.count = 3});
  const TestElement& f32 = kTestElements[0];
  const TestElement& q4_k = kTestElements[6];
  const RandomRows files[] = {{q4_k, 1, 256},   {q4_k, 5000, 512}, {f32, 3, 1'000'000},
                              {f32, 40'000, 3}, {q4_k, 7, 4096},   {f32, 1, 1}};
  for (const RandomRows& file : files) {
    EXPECT_TRUE(Uploaded(file, upload) == file.Expected())
        << file.rows.rows << " rows of " << file.rows.columns;
  }
}

TEST_F(WeightUploadTest, StopsAtADamagedRowAndUploadsTheNextMatrix) {
  const TestElement& mxfp4 = kTestElements.back();
  RandomRows file(mxfp4, 20'000, 64);
  WeightUpload upload(0, {.count = 3});
  const DeviceArray<uint8_t> device(file.rows.rows * file.device_row_bytes());
  for (const size_t row : {size_t{0}, file.rows.rows / 2, file.rows.rows - 1}) {
    uint8_t& exponent = file.bytes[row * file.rows.row_bytes + 17];
    const uint8_t good = exponent;
    exponent = 255;
    const absl::StatusOr<bool> valid = upload.Copy(file.rows, device.data());
    EXPECT_TRUE(valid.ok() && !*valid) << row;
    exponent = good;
    EXPECT_TRUE(Uploaded(file, upload) == file.Expected()) << row;
  }
}

}  // namespace
}  // namespace baton

// One backend beside the other: an operation of the CUDA backend against the CPU's.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/base/check.h"
#include "common/base/float_types.h"

namespace baton {

inline std::unique_ptr<Backend> MakeOrDie(const char* device, bool deterministic) {
  auto backend = MakeBackend({.device = device, .threads = 1, .deterministic = deterministic});
  BATON_CHECK(backend.ok(), "the CUDA backend must start");
  return *std::move(backend);
}

inline std::vector<float> RandomFloats(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The worst and the mean distance of `values` from `expected`, relative to the size of `expected`.
inline void ExpectNear(const std::vector<float>& values, const std::vector<float>& expected,
                       double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  double squares = 0;
  for (const float value : expected) squares += double{value} * value;
  const double size = std::sqrt(squares / static_cast<double>(expected.size()));
  double error = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - expected[i];
    ASSERT_LE(std::fabs(difference), 8 * tolerance * size) << "element " << i;
    error += difference * difference;
  }
  EXPECT_LE(std::sqrt(error / static_cast<double>(values.size())), tolerance * size);
}

// One backend, and the buffers that a test puts into its memory.
class BackendSide {
 public:
  explicit BackendSide(const char* device, bool deterministic = false)
      : backend_(MakeOrDie(device, deterministic)) {}

  Backend& backend() { return *backend_; }

  uint8_t* Put(const void* host, size_t bytes) {
    auto buffer = backend_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    backend_->Upload(host, bytes, buffer->data());
    memory_.push_back(*std::move(buffer));
    return memory_.back().data();
  }
  Tensor Put(const std::vector<float>& values, int rows) {
    uint8_t* data = Put(values.data(), values.size() * sizeof(float));
    return {reinterpret_cast<float*>(data), rows, static_cast<int>(values.size()) / rows};
  }
  std::vector<float> Get(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.rows) *
                              static_cast<size_t>(tensor.columns));
    backend_->Download(tensor.data, values.size() * sizeof(float), values.data());
    return values;
  }
  const Weight* Load(const GgufTensor& tensor) {
    auto weight = backend_->LoadWeight(tensor);
    EXPECT_TRUE(weight.ok()) << weight.status();
    weights_.push_back(*std::move(weight));
    return weights_.back().get();
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<BackendBuffer> memory_;
  std::vector<std::unique_ptr<Weight>> weights_;
};

// A random matrix [rows, columns], as in a file.
struct FileMatrix {
  FileMatrix(std::mt19937& random, GgmlType type, int rows, int columns) {
    for (const float value :
         RandomFloats(random, static_cast<size_t>(rows) * static_cast<size_t>(columns))) {
      const uint32_t bits = type == GgmlType::kF32   ? std::bit_cast<uint32_t>(value)
                            : type == GgmlType::kF16 ? F32ToF16(value)
                                                     : F32ToBf16(value);
      const size_t size = type == GgmlType::kF32 ? 4 : 2;
      const auto* first = reinterpret_cast<const uint8_t*>(&bits);
      bytes.insert(bytes.end(), first, first + size);
    }
    tensor = {"random.weight",
              type,
              {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
              bytes};
  }
  FileMatrix(const FileMatrix&) = delete;

  std::vector<uint8_t> bytes;
  GgufTensor tensor;
};

class CudaBackendTest : public testing::Test {
 protected:
  // Runs `operation(side)` on both backends, and compares the results.
  template <class Operation>
  void ExpectSame(double tolerance, const Operation& operation) {
    const std::vector<float> expected = operation(cpu_);
    const std::vector<float> values = operation(cuda_);
    if (tolerance == 0) {
      ASSERT_EQ(values.size(), expected.size());
      ASSERT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0);
    } else {
      ASSERT_NO_FATAL_FAILURE(ExpectNear(values, expected, tolerance));
    }
  }

  std::mt19937 random_{7};
  BackendSide cpu_{"cpu"};
  BackendSide cuda_{"cuda"};
};

}  // namespace baton

#include "common/backend/cuda/pass/embed.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "common/backend/cpu/cpu_backend.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"

namespace baton {
namespace {

class EmbedInOrder : public EveryFiberOrder {};
INSTANTIATE_TEST_SUITE_P(Orders, EmbedInOrder, testing::ValuesIn(cuda_shim::kAllFiberOrders));

struct ElementCase {
  GgmlType type;
  CudaElement element;
  size_t bytes;
};
constexpr ElementCase kElements[] = {{GgmlType::kF32, CudaElement::kF32, 4},
                                     {GgmlType::kF16, CudaElement::kF16, 2},
                                     {GgmlType::kBf16, CudaElement::kBf16, 2}};

// Random bits, but not those of infinities and NaNs.
std::vector<uint8_t> RandomTable(const ElementCase& element, size_t size, std::mt19937& random) {
  std::vector<uint8_t> bytes(size * element.bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool highest = i % element.bytes == element.bytes - 1;
    bytes[i] = static_cast<uint8_t>(random() & (highest ? 0xbb : 0xff));
  }
  return bytes;
}

void ExpectTheCpusRows(const ElementCase& element, int table_rows, int columns, int rows,
                       size_t out_offset, std::mt19937& random) {
  const std::vector<uint8_t> bytes =
      RandomTable(element, static_cast<size_t>(table_rows * columns), random);
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(table_rows));
  const size_t size = static_cast<size_t>(rows * columns);

  CpuBackend cpu(CpuIsa::kPortable, 1, {});
  const GgufTensor tensor{"table",
                          element.type,
                          {static_cast<uint64_t>(columns), static_cast<uint64_t>(table_rows)},
                          bytes};
  const auto weight = cpu.LoadWeight(tensor);
  ASSERT_TRUE(weight.ok()) << weight.status();
  std::vector<float> expected(size);
  Batch batch;
  batch.sequences = {{.row_count = rows}};
  for (const int32_t id : ids) batch.tokens.push_back(InputToken::Id(id));
  cpu.BeginPass({.batch = &batch});
  cpu.Embed(**weight, {expected.data(), rows, columns});

  const DeviceArray<uint8_t> table(bytes);
  const DeviceArray<int32_t> device_ids(ids);
  const DeviceArray<float> out(size + out_offset);
  LaunchEmbed({table.data(), element.element, table_rows, columns}, device_ids.data(),
              {out.data() + out_offset, rows, columns}, nullptr);
  EXPECT_EQ(std::memcmp(out.Download().data() + out_offset, expected.data(), size * 4), 0)
      << table_rows << " x " << columns << ", " << rows << " rows";
}

TEST_P(EmbedInOrder, GivesTheCpusBits) {
  std::mt19937 random(1);
  for (const ElementCase& element : kElements) {
    // Rows of the table begin at multiples of 16 bytes.
    const int step = 16 / static_cast<int>(element.bytes);
    for (int trial = 0; trial < 6; ++trial) {
      const int columns = step * static_cast<int>(1 + random() % 300);
      ExpectTheCpusRows(element, 1 + static_cast<int>(random() % 50), columns,
                        1 + static_cast<int>(random() % 9), trial % 2, random);
    }
  }
}

TEST_P(EmbedInOrder, LooksUpTheIdsOfPendingTokensAmongTheSampledOnes) {
  const DeviceArray<InputToken> tokens({InputToken::Id(36), InputToken::PendingRow(1),
                                        InputToken::Id(0), InputToken::PendingRow(0)});
  const DeviceArray<int32_t> sampled_ids({7, 8});
  const DeviceArray<int32_t> ids(tokens.size());
  LaunchTokenIds(tokens.data(), sampled_ids.data(), 4, ids.data(), nullptr);
  EXPECT_EQ(ids.Download(), (std::vector<int32_t>{36, 8, 0, 7}));
}

TEST(Embed, NoRowsAreNoLaunch) {
  LaunchTokenIds(nullptr, nullptr, 0, nullptr, nullptr);
  LaunchEmbed({nullptr, CudaElement::kF32, 10, 16}, nullptr, {nullptr, 0, 16}, nullptr);
}

}  // namespace
}  // namespace baton

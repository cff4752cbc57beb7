#include "common/backend/cpu/product/add_bias.h"

#include <vector>

#include "gtest/gtest.h"

#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

// Widths on both sides of a vector's, and more rows than threads.
TEST(AddBias, AddsEachColumnsBiasToEveryRowOnEveryInstructionSet) {
  for (const CpuIsa isa : InstructionSets()) {
    for (const int columns : {1, 15, 16, 17, 100}) {
      for (const int rows : {1, 7}) {
        std::vector<float> out;
        std::vector<float> bias;
        std::vector<float> expected;
        for (int i = 0; i < columns; ++i) bias.push_back(static_cast<float>(i) * 0.7f - 3);
        for (int i = 0; i < rows * columns; ++i) {
          out.push_back(static_cast<float>(i) * 1.3f);
          expected.push_back(out.back() + bias[static_cast<size_t>(i % columns)]);
        }
        out.push_back(5);  // behind the tensor
        ThreadPool pool(2, {});
        AddBiasRows(isa, pool, bias.data(), {out.data(), rows, columns});
        EXPECT_EQ(out.back(), 5);
        out.pop_back();
        EXPECT_EQ(out, expected) << CpuIsaName(isa) << ", " << rows << " x " << columns;
      }
    }
  }
}

TEST(AddBias, OfNoRowsDoesNothing) {
  ThreadPool pool(2, {});
  const float bias[] = {1};
  AddBiasRows(CpuIsa::kPortable, pool, bias, {nullptr, 0, 1});
}

}  // namespace
}  // namespace baton

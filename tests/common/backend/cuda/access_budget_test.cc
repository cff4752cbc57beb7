// What the kernels of a model's layers cost in memory accesses: no more than the fewest, but for
// what is listed here, and just as much as tests/gpu/access_budget.txt says.
#include "tests/common/backend/cuda/access_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/kv_type_name.h"
#include "common/kv/layout.h"
#include "tests/common/backend/cuda/access_step_cases.h"
#include "tests/common/backend/cuda/cuda_backend_fixture.h"
#include "tests/common/backend/cuda/product/test_matrix.h"

namespace baton {
namespace {

using Launches = std::vector<MeasuredLaunch>;

// --- Products

struct ProductCase {
  GgmlType type;
  int rows;
  bool deterministic = false;
};

// Each of the kernels that ProductKernelOf chooses, but the library's, and those of --deterministic.
const ProductCase kProducts[] = {
    {GgmlType::kF32, 1},          {GgmlType::kF16, 1},         {GgmlType::kBf16, 1},
    {GgmlType::kBf16, 3},         {GgmlType::kQ8_0, 1},        {GgmlType::kQ6_K, 1},
    {GgmlType::kMxfp4, 1},        {GgmlType::kBf16, 8},        {GgmlType::kBf16, 16},
    {GgmlType::kF16, 16},         {GgmlType::kQ4_0, 1},        {GgmlType::kQ4_0, 16},
    {GgmlType::kQ4_0, 32},        {GgmlType::kQ4_0, 64},       {GgmlType::kQ4_1, 8},
    {GgmlType::kQ4_K, 8},         {GgmlType::kQ6_K, 8},        {GgmlType::kMxfp4, 8},
    {GgmlType::kQ6_K, 64},        {GgmlType::kQ8_0, 64},       {GgmlType::kBf16, 4},
    {GgmlType::kQ8_0, 2},         {GgmlType::kQ8_0, 16},       {GgmlType::kBf16, 64, true},
    {GgmlType::kBf16, 130, true}, {GgmlType::kQ8_0, 96, true}, {GgmlType::kF16, 96, true},
};
constexpr int kColumns = 1024;
// Enough for tiles on the shim's device if the rows are many.
int OutputsOf(const ProductCase& test) { return test.deterministic ? 256 : 128; }

void MeasureProducts(Launches& launches) {
  std::mt19937 random(1);
  BackendSide usual("cuda");
  BackendSide deterministic("cuda", true);
  for (const ProductCase& test : kProducts) {
    const int outputs = OutputsOf(test);
    BackendSide& side = test.deterministic ? deterministic : usual;
    const TestMatrix matrix(TestElementOf(test.type), outputs, kColumns, random);
    const Weight* const weight = side.Load(matrix.FileTensor());
    const Tensor in =
        side.Put(RandomFloats(random, static_cast<size_t>(test.rows) * kColumns), test.rows);
    const Tensor gain = side.Put(RandomFloats(random, kColumns), 1);
    const Tensor out =
        side.Put(std::vector<float>(static_cast<size_t>(test.rows * outputs)), test.rows);
    const std::string what = std::string("product ") + GgmlTypeName(test.type) + " " +
                             std::to_string(test.rows) + (test.rows == 1 ? " row" : " rows") +
                             (test.deterministic ? " alike" : "");
    const Backend::ProductOutput output = {.weight = weight, .out = out};
    Measure(
        what,
        [&] {
          side.backend().NormProduct(in, gain.data, 1e-5F, Backend::InputPrecision::kUsual,
                                     {&output, 1});
          side.backend().Synchronize();
        },
        launches);
  }
}

// --- Attention

struct AttentionCase {
  KvType type;
  int head_dim;
  bool deterministic = false;
};
const AttentionCase kAttentions[] = {
    {KvType::kBf16, 128}, {KvType::kBf16, 64},        {KvType::kBf16, 80},  {KvType::kBf16, 256},
    {KvType::kInt8, 128}, {KvType::kFp8, 128},        {KvType::kInt4, 128}, {KvType::kF32, 128},
    {KvType::kInt8, 64},  {KvType::kBf16, 128, true},
};

// Two sequences in a paged cache, one of them longer than a segment of attention.
class PagedLayer {
 public:
  static constexpr int kKvHeads = 2;
  static constexpr int kGroup = 4;
  static constexpr int kTokens[] = {290, 45};  // with the step's own

  explicit PagedLayer(const AttentionCase& test)
      : side_("cuda", test.deterministic),
        layout_{.layers = 1,
                .kv_heads = kKvHeads,
                .head_dim = test.head_dim,
                .block_size = 32,
                .dtype = test.type} {
    int block = 0;
    for (const int tokens : kTokens) {
      tables_.emplace_back();
      for (int i = 0; i < layout_.BlocksFor(tokens); ++i) tables_.back().push_back(block++);
    }
    const std::vector<uint8_t> bytes(static_cast<size_t>(block) * layout_.block_bytes());
    view_ = {.blocks = side_.Put(bytes.data(), bytes.size()),
             .block_bytes = layout_.block_bytes(),
             .keys_offset = layout_.RowOffset(0, KvLayout::kKeys, 0),
             .values_offset = layout_.RowOffset(0, KvLayout::kValues, 0),
             .block_size = layout_.block_size,
             .kv_heads = kKvHeads,
             .head_dim = test.head_dim,
             .dtype = test.type};
  }

  // A pass of the first tokens of each sequence.
  void Prefill(const std::string& what, Launches& launches) {
    // Without tensor cores each row is a task of its own, which takes long here.
    Begin({tensor_cores() ? 150 : 20, kTokens[1] - 1}, {0, 0});
    Attend(what, launches);
  }
  // A pass of the last five tokens of each.
  void Run(const std::string& what, Launches& launches) {
    Begin({5, 5}, {kTokens[0] - 5, kTokens[1] - 5});
    Attend(what, launches);
  }
  bool tensor_cores() const { return layout_.dtype != KvType::kF32; }
  // A pass of the last token of each.
  void Decode(const std::string& what, Launches& launches) {
    Begin({1, 1}, {kTokens[0] - 1, kTokens[1] - 1});
    Measure(
        what,
        [&] {
          side_.backend().AppendAndAttend(0, queries_, keys_, values_, view_, rule_, out_);
          side_.backend().Synchronize();
        },
        launches);
  }

 private:
  void Attend(const std::string& what, Launches& launches) {
    Measure(
        what,
        [&] {
          side_.backend().RotateAndAppend(0, queries_, keys_, values_, view_);
          side_.backend().Attention(rule_, queries_, view_, out_);
          side_.backend().Synchronize();
        },
        launches);
  }
  void Begin(const std::vector<int>& rows, const std::vector<int>& positions) {
    batch_ = {};
    int count = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      batch_.sequences.push_back({.first_row = count,
                                  .row_count = rows[i],
                                  .first_position = positions[i],
                                  .block_table = tables_[i].data(),
                                  .table_entries = static_cast<int>(tables_[i].size())});
      count += rows[i];
    }
    const int columns = kKvHeads * layout_.head_dim;
    queries_ = Random(count, columns * kGroup);
    keys_ = Random(count, columns);
    values_ = Random(count, columns);
    out_ = Random(count, columns * kGroup);
    rule_.scale = 1 / std::sqrt(static_cast<float>(layout_.head_dim));
    angles_ = RandomFloats(random_, static_cast<size_t>(count * layout_.head_dim / 2));
    side_.backend().BeginPass({.batch = &batch_,
                               .ropes = {{.pairs = RopePairs::kHalfSplit,
                                          .dim = layout_.head_dim,
                                          .cosines = angles_,
                                          .sines = angles_}}});
  }
  Tensor Random(int rows, int columns) {
    return side_.Put(
        RandomFloats(random_, static_cast<size_t>(rows) * static_cast<size_t>(columns)), rows);
  }

  std::mt19937 random_{3};
  BackendSide side_;
  KvLayout layout_;
  KvLayerView view_;
  std::vector<std::vector<int32_t>> tables_;
  Batch batch_;
  AttentionRule rule_;
  std::vector<float> angles_;
  Tensor queries_, keys_, values_, out_;
};

void MeasureAttentions(Launches& launches) {
  for (const AttentionCase& test : kAttentions) {
    const std::string shape = std::string(KvTypeName(test.type)) + " " +
                              std::to_string(test.head_dim) + (test.deterministic ? " alike" : "");
    PagedLayer layer(test);
    layer.Prefill("prefill " + shape, launches);
    layer.Decode("decode " + shape, launches);
    if (layer.tensor_cores()) layer.Run("run " + shape, launches);
  }
}

const Launches& AllLaunches() {
  static const Launches& launches = *[] {
    auto* const all = new Launches;
    MeasureProducts(*all);
    MeasureAttentions(*all);
    MeasureExperts(*all);
    MeasureRows(*all);
    MeasureSampler(*all);
    NameKernels(*all);
    return all;
  }();
  return launches;
}

// --- What may cost more than the fewest.

struct Allowed {
  const char* kernel;
  const char* column;
  const char* why;
};
// A head's state is 16 bytes longer than the head. The counters of arrivals and the tables of blocks
// are of 4 bytes.
#define BATON_PARTIALS "partial results and tables begin within sectors"
#define BATON_SCALES "scales of the other KV heads lie between those of one"
// A row's next scales are what the next accesses want, from the L1 cache.
#define BATON_WEIGHT_ROWS \
  "scales of eight rows of weights; rows of Q4_K and Q6_K begin at multiples of 16 bytes"
// The two halves of a sector are the same lane's, one after the other, so that the second comes from
// the L1 cache. Lanes with other columns would add their products in another order; an input that
// is stored in the lanes' order would be another for each type of weight that reads it.
#define BATON_LANE_COLUMNS                                                                         \
  "Q8_0: as the weights lie, a lane has 16 neighbouring columns of the input, and takes eight of " \
  "them at a time"
#define BATON_TWO_LANES \
  "Q6_K: of eight neighbouring columns of the input one lane has four and the next lane four"
const Allowed kAllowed[] = {
    {"VectorProductKernel", "device write", "a warp's few results are of several rows"},
    {"VectorProductKernel", "shared read", "four rows' squares for four threads, once"},
    {"InvariantPartsKernel", "device read", BATON_WEIGHT_ROWS "; " BATON_LANE_COLUMNS},
    {"TwoRowKernel", "device read", BATON_WEIGHT_ROWS},
    {"QuantisedTileKernel", "device read", BATON_WEIGHT_ROWS},
    {"QuantisedTileKernel", "shared read",
     "a thread takes a block's part of its own 16 bytes, 8 or 4 at a time: it has no registers for "
     "all of them"},
    {"TileProductKernel", "device read", BATON_WEIGHT_ROWS "; " BATON_TWO_LANES},
    {"TileProductKernel", "shared write", BATON_TWO_LANES},
    {"PrefillAttentionKernel", "device read", BATON_SCALES},
    {"PrefillAttentionKernel", "shared write", "eight lanes write two rows of 80 elements"},
    {"RotateAndAppendKernel", "device write", "a warp begins within a head of 80 elements"},
    {"AppendAttentionKernel", "device read", BATON_PARTIALS},
    {"AppendAttentionKernel", "device write", BATON_PARTIALS},
    {"AppendAttentionKernel", "shared read", "eight lanes read two states of 80 elements"},
    {"AppendAttentionKernel", "shared write",
     "StoreState: two rows in one bank, once at the end; eight lanes write two rows of 80 "
     "elements"},
    {"DecodeAttentionKernel", "device read", BATON_PARTIALS "; " BATON_SCALES},
    {"DecodeAttentionKernel", "device write", BATON_PARTIALS},
    {"DecodeAttentionKernel", "shared write", "StoreState: two rows in one bank, once at the end"},
    {"RunAttentionKernel", "device read", BATON_PARTIALS},
    {"RunAttentionKernel", "device write", BATON_PARTIALS},
    {"RunAttentionKernel", "shared read", "eight lanes read two states of 80 elements"},
    {"RunAttentionKernel", "shared write",
     "StoreState: two rows in one bank, once at the end; eight lanes write two rows of 80 "
     "elements"},
    {"VectorAttentionKernel", "device read", BATON_PARTIALS "; int4: scales of many keys"},
    {"VectorAttentionKernel", "device write", BATON_PARTIALS},
    {"SegmentTaskKernel", "device read", BATON_PARTIALS},
    {"SegmentTaskKernel", "device write", "states are stored by pairs of elements"},
    {"ExpertProductKernel", "device read",
     BATON_WEIGHT_ROWS "; " BATON_LANE_COLUMNS "; an expert's pairs begin anywhere"},
    {"ExpertTwoPairKernel", "device read", BATON_WEIGHT_ROWS "; an expert's pairs begin anywhere"},
    {"GroupPairsKernel", "device write", "an expert's pairs begin anywhere"},
    {"DequantiseKernel", "device read", "rows of Q6_K begin at multiples of 16 bytes"},
    {"DequantiseKernel", "device write",
     "embedding alone: a lane has eight floats, and the L2 cache joins its two stores"},
    {"EditLogits", "device read", "tokens with a penalty, and their logits, are anywhere"},
    {"EditLogits", "device write", "tokens with a penalty are anywhere"},
    {"SampleTokens", "device read",
     "one of the numbers that a slice has, and its most likely tokens"},
};
#undef BATON_PARTIALS
#undef BATON_SCALES
#undef BATON_WEIGHT_ROWS
#undef BATON_LANE_COLUMNS
#undef BATON_TWO_LANES

TEST(KernelAccesses, CostTheFewestButForWhatHasAReason) {
  std::vector<bool> used(std::size(kAllowed));
  for (const MeasuredLaunch& launch : AllLaunches()) {
    for (const AccessColumn& column : kAccessColumns) {
      if (launch.counts.All(column.space, column.kind).excess() == 0) continue;
      bool allowed = false;
      for (size_t i = 0; i < std::size(kAllowed); ++i) {
        if (launch.kernel != kAllowed[i].kernel || column.name != std::string(kAllowed[i].column)) {
          continue;
        }
        allowed = used[i] = true;
      }
      EXPECT_TRUE(allowed) << launch.what << ", " << launch.kernel << ": " << column.name << "\n"
                           << WastefulInstructions(launch);
    }
  }
  for (size_t i = 0; i < std::size(kAllowed); ++i) {
    EXPECT_TRUE(used[i]) << kAllowed[i].kernel << " needs no reason for " << kAllowed[i].column;
  }
}

// The widths of columns depend on all lines.
std::string WithoutPadding(const std::string& line) {
  std::istringstream words(line);
  std::string text, word;
  while (words >> word) text += word + " ";
  return text;
}

TEST(KernelAccesses, AreThoseOfTheBudget) {
  const std::string path = BATON_TEST_DATA "/../gpu/access_budget.txt";
  const std::string compiler = "# g++ " + std::to_string(__GNUC__) + "\n";
  const std::string table = compiler + TableOf(AllLaunches());
  if (std::getenv("BATON_WRITE_ACCESS_BUDGET") != nullptr) {
    std::ofstream(path) << table;
    for (const MeasuredLaunch& launch : AllLaunches()) {
      const std::string wasteful = WastefulInstructions(launch);
      if (!wasteful.empty()) std::cout << launch.what << ", " << launch.kernel << "\n" << wasteful;
    }
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::stringstream budget;
  budget << file.rdbuf();
  if (budget.str().rfind(compiler, 0) != 0) GTEST_SKIP() << "the budget is of another compiler";
  // Line by line, so that a failure shows only what differs.
  std::stringstream measured(table);
  std::string want, have;
  while (std::getline(budget, want)) {
    if (!std::getline(measured, have)) have.clear();
    EXPECT_EQ(WithoutPadding(have), WithoutPadding(want));
  }
  EXPECT_FALSE(std::getline(measured, have)) << have;
}

}  // namespace
}  // namespace baton

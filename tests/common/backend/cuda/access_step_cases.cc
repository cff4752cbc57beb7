#include "tests/common/backend/cuda/access_step_cases.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/common/backend/cuda/cuda_backend_fixture.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/common/backend/cuda/sampling/sampler_harness.h"

namespace baton {
namespace {

using Launches = std::vector<MeasuredLaunch>;

std::string RowsText(int rows) { return std::to_string(rows) + (rows == 1 ? " row" : " rows"); }

// --- Experts

struct ExpertCase {
  GgmlType type;
  int rows;
};
// One or two rows, few for each expert, and many.
const ExpertCase kExpertCases[] = {
    {GgmlType::kMxfp4, 1}, {GgmlType::kQ4_K, 2}, {GgmlType::kBf16, 4},  {GgmlType::kQ4_0, 4},
    {GgmlType::kQ4_0, 48}, {GgmlType::kQ4_K, 4}, {GgmlType::kQ8_0, 48}, {GgmlType::kMxfp4, 4}};
constexpr int kExperts = 8;
constexpr int kUsedExperts = 2;
constexpr int kWidth = 512;
constexpr int kExpertWidth = 256;

// The matrices of a layer's experts.
class LayerExperts {
 public:
  LayerExperts(GgmlType type, BackendSide& side, std::mt19937& random) {
    for (int i = 0; i < kExperts; ++i) {
      Load(TestMatrix(TestElementOf(type), kExpertWidth, kWidth, random), side, gates_);
      Load(TestMatrix(TestElementOf(type), kExpertWidth, kWidth, random), side, ups_);
      Load(TestMatrix(TestElementOf(type), kWidth, kExpertWidth, random), side, downs_);
    }
  }
  Experts All() const { return {.gate = gates_, .up = ups_, .down = downs_, .used = kUsedExperts}; }

 private:
  using Weights = std::vector<std::unique_ptr<Weight>>;

  static void Load(const TestMatrix& matrix, BackendSide& side, Weights& weights) {
    auto weight = side.backend().LoadWeight(matrix.FileTensor());
    BATON_CHECK(weight.ok(), "the weight must be readable");
    weights.push_back(*std::move(weight));
  }

  Weights gates_, ups_, downs_;
};

// --- Rows

constexpr int kWideColumns = 1024;
// More than the backend's own kernels multiply (product_dispatch.h).
constexpr int kLibraryRows = 17;
constexpr int kQuantisedLibraryRows = 65;

// Rows of activations, and what their operations need beside them.
class Activations {
 public:
  Tensor Random(int rows, int columns = kWideColumns) {
    return side_.Put(
        RandomFloats(random_, static_cast<size_t>(rows) * static_cast<size_t>(columns)), rows);
  }
  const Weight* RandomWeight(GgmlType type, int rows, int columns = kWideColumns) {
    return side_.Load(TestMatrix(TestElementOf(type), rows, columns, random_).FileTensor());
  }
  template <class Operation>
  void Measured(const std::string& what, const Operation& operation, Launches& launches) {
    Measure(
        what,
        [&] {
          operation(side_.backend());
          side_.backend().Synchronize();
        },
        launches);
  }

 private:
  std::mt19937 random_{5};
  BackendSide side_{"cuda"};
};

void MeasureEmbedding(GgmlType type, Activations& activations, Launches& launches) {
  const Weight* const table = activations.RandomWeight(type, 64);
  const Tensor out = activations.Random(2);
  const int32_t block = 0;
  const Batch batch{.tokens = {InputToken::Id(36), InputToken::Id(5)},
                    .sampled_ids = nullptr,
                    .sequences = {{0, 2, 0, &block, 1}},
                    .logits_rows = {}};
  activations.Measured(
      std::string("embedding ") + GgmlTypeName(type),
      [&](Backend& backend) {
        backend.BeginPass({.batch = &batch});
        backend.Embed(*table, out);
      },
      launches);
}

// Products whose inputs are made in each of the ways that there are.
void MeasureInputs(GgmlType type, int rows, Activations& activations, Launches& launches) {
  const Weight* const weight = activations.RandomWeight(type, 64);
  const Tensor in = activations.Random(rows);
  const Tensor other = activations.Random(rows);
  const Backend::ProductOutput output = {.weight = weight, .out = activations.Random(rows, 64)};
  const std::string of = std::string(" ") + GgmlTypeName(type) + " " + RowsText(rows);
  activations.Measured(
      "plain product" + of,
      [&](Backend& backend) {
        backend.Product(in, {&output, 1});
      },
      launches);
  activations.Measured(
      "gated product" + of,
      [&](Backend& backend) {
        backend.GatedProduct(GateFunction::kSilu, in, other, {&output, 1});
      },
      launches);
  activations.Measured(
      "norm and product" + of,
      [&](Backend& backend) {
        backend.NormProduct(in, other.data, 1e-5F, Backend::InputPrecision::kUsual, {&output, 1});
      },
      launches);
}

// Gates of so many columns that they are made first.
void MeasureGatesMadeFirst(Activations& activations, Launches& launches) {
  constexpr int kMany = 8448;
  const Backend::ProductOutput output = {
      .weight = activations.RandomWeight(GgmlType::kBf16, 16, kMany),
      .out = activations.Random(1, 16)};
  const Tensor gate = activations.Random(1, kMany);
  const Tensor up = activations.Random(1, kMany);
  activations.Measured(
      "gates first BF16 1 row",
      [&](Backend& backend) {
        backend.GatedProduct(GateFunction::kSilu, gate, up, {&output, 1});
      },
      launches);
}

// --- Sampler

Question QuestionOf(Questions& questions, const SamplingParams& params) {
  Question question;
  std::vector<float>& logits = question.logits;
  for (int i = 0; i < 9000; ++i) logits.push_back(questions.Uniform(-8, 8));
  question.params = params;
  for (int i = 0; i < 40; ++i) question.output.push_back(questions.Token(9000));
  return question;
}

}  // namespace

void MeasureExperts(Launches& launches) {
  std::mt19937 random(4);
  BackendSide side("cuda");
  for (const ExpertCase& test : kExpertCases) {
    const LayerExperts experts(test.type, side, random);
    const auto floats = [&](int columns) {
      return side.Put(RandomFloats(random, static_cast<size_t>(test.rows * columns)), test.rows);
    };
    const Tensor in = floats(kWidth);
    const Tensor gain = floats(kWidth);
    const Tensor router = floats(kExperts);
    const Tensor out = floats(kWidth);
    Measure(
        std::string("experts ") + GgmlTypeName(test.type) + " " + RowsText(test.rows),
        [&] {
          side.backend().AddExperts(in, gain.data, 1e-5F, router, experts.All(), 1, out);
          side.backend().Synchronize();
        },
        launches);
  }
}

void MeasureRows(Launches& launches) {
  Activations activations;
  for (const GgmlType type : {GgmlType::kBf16, GgmlType::kQ4_0, GgmlType::kQ6_K}) {
    MeasureEmbedding(type, activations, launches);
  }
  MeasureInputs(GgmlType::kBf16, 1, activations, launches);
  MeasureInputs(GgmlType::kQ4_0, 8, activations, launches);
  MeasureInputs(GgmlType::kBf16, kLibraryRows, activations, launches);
  MeasureInputs(GgmlType::kQ4_0, kQuantisedLibraryRows, activations, launches);
  MeasureGatesMadeFirst(activations, launches);
  const Tensor values = activations.Random(2);
  const Tensor more = activations.Random(2);
  const Tensor gain = activations.Random(1);
  const auto measure = [&](const std::string& what, const auto& operation) {
    activations.Measured(what, operation, launches);
  };
  for (const int size : {128, kWideColumns}) {
    measure("norms of " + std::to_string(size),
            [&](Backend& backend) { backend.NormGroups(gain.data, size, 1e-5F, values); });
  }
  measure("add norm",
          [&](Backend& backend) { backend.AddNorm(more, gain.data, 1e-5F, 1, values); });
  measure("add bias", [&](Backend& backend) { backend.AddBias(gain.data, values); });
  measure("scale", [&](Backend& backend) { backend.Scale(2, values); });
  measure("soft cap", [&](Backend& backend) { backend.SoftCap(30, values); });
  const Tensor row = activations.Random(1);
  const int last = 1;
  measure("copy rows", [&](Backend& backend) { backend.CopyRows(values, {&last, 1}, row); });
}

void MeasureSampler(Launches& launches) {
  Questions questions(6);
  const auto measure = [&](const std::string& what, const SamplingParams& params) {
    const DeviceBatch batch({QuestionOf(questions, params), QuestionOf(questions, params)},
                            /*end_ids=*/{2}, /*counts_capacity=*/81);
    Measure(
        what, [&] { batch.Launch({}); }, launches);
  };
  SamplingParams params = {};
  params.temperature = 0;
  measure("sampler greedy", params);
  params.temperature = 1;
  measure("sampler all tokens", params);
  params.top_k = 40;
  params.top_p = 0.9F;
  measure("sampler top k, top p", params);
  params.frequency_penalty = 0.5F;
  params.logprobs = 5;
  measure("sampler penalties, logprobs", params);
}

}  // namespace baton

#include "common/backend/cpu/experts/expert_mixer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/product/cpu_weight.h"
#include "common/base/check.h"
#include "common/base/grow.h"

namespace baton {
namespace {

bool Quantised(const Weight& weight) { return static_cast<const CpuWeight&>(weight).quantised(); }

size_t Elements(int rows, int columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

// Row `row` of a matrix with `columns` columns.
template <class T>
T* RowOf(T* data, int row, int columns) {
  return data + Elements(row, columns);
}

void CopyRow(const float* from, int columns, float* to) {
  std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
}

struct CombineArgs {
  const ExpertChoice* choices;  // [rows, used]
  const int* places;            // [rows, used]
  int used;
  int first_pair;  // the wave's first one
  int end_pair;
  bool last_wave;
  const float* down;  // [pairs of the wave, width]
  float scale;
  float* sums;  // [rows, width]
  Tensor out;   // [rows, width]
};

struct CombineKernel {
  [[gnu::always_inline]] static inline void AddScaled(float factor, const float* from, int count,
                                                      float* to) {
    for (int k = 0; k < count; ++k) to[k] = __builtin_fmaf(factor, from[k], to[k]);
  }

  [[gnu::always_inline]] static inline void Run(const CombineArgs& args, const int& begin,
                                                const int& end) {
    const int width = args.out.columns;
    for (int row = begin; row < end; ++row) {
      float* sum = args.sums + static_cast<size_t>(row) * static_cast<size_t>(width);
      if (args.first_pair == 0) std::memset(sum, 0, static_cast<size_t>(width) * sizeof(float));
      for (int i = row * args.used; i < (row + 1) * args.used; ++i) {
        const int pair = args.places[i];
        if (pair < args.first_pair || pair >= args.end_pair) continue;
        const float* down =
            args.down + static_cast<size_t>(pair - args.first_pair) * static_cast<size_t>(width);
        AddScaled(args.choices[i].share, down, width, sum);
      }
      if (args.last_wave) AddScaled(args.scale, sum, width, args.out.Row(row));
    }
  }
};

}  // namespace

ExpertMixer::ExpertMixer(CpuIsa isa, ThreadPool& pool)
    : isa_(isa), kernels_(KernelsFor(isa)), pool_(pool) {}

void ExpertMixer::Add(const ExpertMix& mix, std::vector<ProductScratch>& scratch) {
  const Experts& experts = mix.experts;
  const auto count = static_cast<size_t>(mix.router.columns);
  BATON_CHECK(experts.gate.size() == count && experts.up.size() == count &&
                  experts.down.size() == count && mix.router.rows == mix.out.rows &&
                  mix.in.rows == mix.out.rows && mix.in.columns == mix.out.columns,
              "the shapes of input, router, experts and output must fit");
  if (mix.out.rows == 0) return;
  GrowTo(Elements(mix.out.rows, experts.used), choices_);
  ChooseExperts(isa_, pool_, mix.router, experts.used, choices_.data());
  pairs_.Sort(absl::MakeSpan(choices_).first(Elements(mix.out.rows, experts.used)), experts.used,
              mix.router.columns);
  PrepareInput(mix);
  GrowTo(Elements(mix.out.rows, mix.out.columns), sums_);
  for (Wave wave; wave.first < pairs_.size(); wave.first = wave.end) {
    wave.end = pairs_.WaveEnd(wave.first, kWavePairs);
    Gather(mix, wave);
    MultiplyIn(mix, wave, scratch);
    MultiplyOut(mix, wave, scratch);
    Combine(mix, wave);
  }
}

void ExpertMixer::PrepareInput(const ExpertMix& mix) {
  const bool gate = Quantised(*mix.experts.gate[0]);
  const bool up = Quantised(*mix.experts.up[0]);
  blocks_wanted_ = gate || up;
  floats_wanted_ = !gate || !up;
  input_.Prepare(kernels_, pool_,
                 {.kind = ProductInputArgs::Kind::kNorm,
                  .in = mix.in,
                  .other = mix.gain,
                  .epsilon = mix.epsilon},
                 blocks_wanted_, floats_wanted_);
}

void ExpertMixer::Gather(const ExpertMix& mix, Wave wave) {
  const Experts& experts = mix.experts;
  const int width = mix.out.columns;
  const int expert_width = experts.gate[0]->rows();
  if (blocks_wanted_) GrowTo(Elements(wave.size(), width / kQuantBlock), blocks_);
  if (floats_wanted_) GrowTo(Elements(wave.size(), width), floats_);
  GrowTo(Elements(wave.size(), expert_width), gate_);
  GrowTo(Elements(wave.size(), expert_width), up_);
  GrowTo(Elements(wave.size(), width), down_);
  const bool biases =
      experts.gate_bias != nullptr || experts.up_bias != nullptr || experts.down_bias != nullptr;
  bool several = false;
  for (int pair = wave.first; pair + 1 < wave.end; ++pair) {
    several = several || pairs_.at(pair).expert == pairs_.at(pair + 1).expert;
  }
  if (!biases && !several) return;
  pool_.ParallelFor(wave.size(), [&](int begin, int end) {
    for (int pair = wave.first + begin; pair < wave.first + end; ++pair) {
      GatherPair(mix, wave, pair);
    }
  });
}

void ExpertMixer::GatherPair(const ExpertMix& mix, Wave wave, int pair) {
  const Experts& experts = mix.experts;
  const int width = mix.out.columns;
  const int expert_width = experts.gate[0]->rows();
  const int at = pair - wave.first;
  const auto [expert, row] = pairs_.at(pair);
  const auto put_bias = [&, expert = expert](const float* biases, int columns,
                                             std::vector<float>& out) {
    if (biases != nullptr) {
      CopyRow(RowOf(biases, expert, columns), columns, RowOf(out.data(), at, columns));
    }
  };
  put_bias(experts.gate_bias, expert_width, gate_);
  put_bias(experts.up_bias, expert_width, up_);
  put_bias(experts.down_bias, width, down_);
  const ProductRows in = input_.Rows(row, 1);
  if (floats_wanted_) CopyRow(in.floats, width, RowOf(floats_.data(), at, width));
  if (blocks_wanted_) {
    const int blocks = width / kQuantBlock;
    std::copy_n(in.blocks, blocks, RowOf(blocks_.data(), at, blocks));
  }
}

ProductRows ExpertMixer::InputOf(Wave wave, int first, int end) const {
  if (end - first == 1) return input_.Rows(pairs_.at(first).row, 1);
  const int width = input_.columns();
  const int at = first - wave.first;
  return {.rows = end - first,
          .blocks = blocks_wanted_ ? RowOf(blocks_.data(), at, width / kQuantBlock) : nullptr,
          .block_stride = width / kQuantBlock,
          .floats = floats_wanted_ ? RowOf(floats_.data(), at, width) : nullptr,
          .float_stride = width};
}

void ExpertMixer::MultiplyIn(const ExpertMix& mix, Wave wave,
                             std::vector<ProductScratch>& scratch) {
  const Experts& experts = mix.experts;
  const int expert_width = experts.gate[0]->rows();
  parts_.clear();
  for (int first = wave.first, end; first < wave.end; first = end) {
    end = std::min(pairs_.ExpertEnd(first), wave.end);
    const auto expert = static_cast<size_t>(pairs_.at(first).expert);
    const ProductRows input = InputOf(wave, first, end);
    const auto multiply = [&](const Weight& weight, const float* biases, std::vector<float>& out) {
      BATON_CHECK(weight.rows() == expert_width && weight.columns() == mix.out.columns &&
                      (Quantised(weight) ? blocks_wanted_ : floats_wanted_),
                  "the shape and type of the first expert");
      float* to = RowOf(out.data(), first - wave.first, expert_width);
      parts_.push_back({input, {&weight, {to, end - first, expert_width}, biases != nullptr}});
    };
    multiply(*experts.gate[expert], experts.gate_bias, gate_);
    multiply(*experts.up[expert], experts.up_bias, up_);
  }
  MultiplyParts(kernels_, pool_, parts_, scratch);
}

void ExpertMixer::MultiplyOut(const ExpertMix& mix, Wave wave,
                              std::vector<ProductScratch>& scratch) {
  const Experts& experts = mix.experts;
  const int width = mix.out.columns;
  const bool quantised = Quantised(*experts.down[0]);
  gated_.Prepare(kernels_, pool_,
                 {.kind = ProductInputArgs::Kind::kGated,
                  .function = experts.function,
                  .in = {gate_.data(), wave.size(), experts.gate[0]->rows()},
                  .other = up_.data()},
                 quantised, !quantised);
  parts_.clear();
  for (int first = wave.first, end; first < wave.end; first = end) {
    end = std::min(pairs_.ExpertEnd(first), wave.end);
    const Weight& weight = *experts.down[static_cast<size_t>(pairs_.at(first).expert)];
    BATON_CHECK(weight.rows() == width && weight.columns() == gated_.columns() &&
                    Quantised(weight) == quantised,
                "the shape and type of the first expert");
    float* to = RowOf(down_.data(), first - wave.first, width);
    parts_.push_back({gated_.Rows(first - wave.first, end - first),
                      {&weight, {to, end - first, width}, experts.down_bias != nullptr}});
  }
  MultiplyParts(kernels_, pool_, parts_, scratch);
}

void ExpertMixer::Combine(const ExpertMix& mix, Wave wave) {
  const CombineArgs args{.choices = choices_.data(),
                         .places = pairs_.places().data(),
                         .used = mix.experts.used,
                         .first_pair = wave.first,
                         .end_pair = wave.end,
                         .last_wave = wave.end == pairs_.size(),
                         .down = down_.data(),
                         .scale = mix.scale,
                         .sums = sums_.data(),
                         .out = mix.out};
  pool_.ParallelFor(mix.out.rows,
                    [&](int begin, int end) { RunOn<CombineKernel>(isa_, args, begin, end); });
}

}  // namespace baton

#include "common/backend/cpu/experts/expert_choice.h"

#include <cstddef>
#include <limits>

#include "common/backend/exact_math.h"
#include "common/base/check.h"

namespace baton {
namespace {

struct ChooseKernel {
  // Inserts a choice before the first of the `count` earlier ones that it precedes.
  template <class Precedes>
  [[gnu::always_inline]] static inline void Insert(ExpertChoice choice, int count,
                                                   ExpertChoice* choices, Precedes precedes) {
    int at = count;
    for (; at > 0 && precedes(choice, choices[at - 1]); --at) choices[at] = choices[at - 1];
    choices[at] = choice;
  }

  // Until the choice is made, the member `share` holds the logit.
  [[gnu::always_inline]] static inline void Choose(const float* logits, int experts, int used,
                                                   ExpertChoice* choices) {
    int count = 0;
    for (int expert = 0; expert < experts; ++expert) {
      const bool nan = logits[expert] != logits[expert];
      const float logit = nan ? -std::numeric_limits<float>::infinity() : logits[expert];
      if (count == used && !(logit > choices[used - 1].share)) continue;
      if (count == used) --count;
      Insert(
          {expert, logit}, count++, choices,
          [](const ExpertChoice& a, const ExpertChoice& b)
              __attribute__((always_inline)) { return a.share > b.share; });
    }
    const float greatest = choices[0].share;
    for (int i = 0; i < used; ++i) {
      const int expert = choices[i].expert;
      Insert(
          {expert, ExpF(logits[expert] - greatest)}, i, choices,
          [](const ExpertChoice& a, const ExpertChoice& b)
              __attribute__((always_inline)) { return a.expert < b.expert; });
    }
    float sum = 0;
    for (int i = 0; i < used; ++i) sum += choices[i].share;
    for (int i = 0; i < used; ++i) choices[i].share /= sum;
  }

  [[gnu::always_inline]] static inline void Run(const Tensor& router, const int& used,
                                                ExpertChoice* const& choices, const int& begin,
                                                const int& end) {
    for (int row = begin; row < end; ++row) {
      Choose(router.Row(row), router.columns, used,
             choices + static_cast<size_t>(row) * static_cast<size_t>(used));
    }
  }
};

}  // namespace

void ChooseExperts(CpuIsa isa, ThreadPool& pool, Tensor router, int used, ExpertChoice* choices) {
  BATON_CHECK(used >= 1 && used <= router.columns, "as many experts as there are");
  pool.ParallelFor(router.rows, [&](int begin, int end) {
    RunOn<ChooseKernel>(isa, router, used, choices, begin, end);
  });
}

}  // namespace baton

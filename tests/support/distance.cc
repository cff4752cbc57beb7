#include "tests/support/distance.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

// The logarithm of the sum of exp(logits[i] - max).
double LogSum(const float* logits, int count, float max) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += std::exp(double{logits[i]} - max);
  return std::log(sum);
}

}  // namespace

void Distance::Add(const std::vector<float>& reference, const std::vector<float>& ours,
                   int vocab_size) {
  for (size_t row = 0; row < reference.size(); row += static_cast<size_t>(vocab_size)) {
    const float* p = &reference[row];
    const float* q = &ours[row];
    const float* p_max = std::max_element(p, p + vocab_size);
    const float* q_max = std::max_element(q, q + vocab_size);
    const double p_log_sum = LogSum(p, vocab_size, *p_max);
    const double q_log_sum = LogSum(q, vocab_size, *q_max);
    for (int i = 0; i < vocab_size; ++i) {
      const double log_p = double{p[i]} - *p_max - p_log_sum;
      kl_sum += std::exp(log_p) * (log_p - (double{q[i]} - *q_max - q_log_sum));
    }
    ++tokens;
    same_top += p_max - p == q_max - q;
  }
}

}  // namespace baton

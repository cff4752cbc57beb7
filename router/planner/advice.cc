#include "router/planner/advice.h"

#include <algorithm>
#include <cmath>

namespace baton {

double BusierRole(double prefill_needed, double decode_needed, uint32_t prefill, uint32_t workers) {
  return std::max(prefill_needed / prefill, decode_needed / (workers - prefill));
}

uint32_t BalancedPrefill(double prefill_needed, double decode_needed, uint32_t workers) {
  const double both = prefill_needed + decode_needed;
  const double part = both > 0 ? prefill_needed / both : 0.5;
  // The best whole number is beside the fraction at which both are equally busy.
  const double even = std::clamp(std::floor(part * workers), 1.0, workers - 1.0);
  const auto low = static_cast<uint32_t>(even);
  const uint32_t high = std::min(low + 1, workers - 1);
  return BusierRole(prefill_needed, decode_needed, high, workers) <
                 BusierRole(prefill_needed, decode_needed, low, workers)
             ? high
             : low;
}

}  // namespace baton

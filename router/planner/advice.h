// How many workers of each role the present load needs: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace baton {

struct RoleAdvice {
  uint32_t ready = 0;  // workers that may be used now
  // Workers that the load keeps busy as far as they shall be, a fraction; none: it is not known
  // yet. The sum over routers is what the fleet needs.
  std::optional<double> needed{};
  uint32_t advised =
      0;  // a whole, steady number for the load of this router; 0: not known, or none
  // The role's part of as many workers as are ready now in both roles, or of --advice-workers, so
  // that both are about equally busy; 0: not known, or there are fewer than two.
  uint32_t balanced = 0;
  std::string why{};  // one sentence without a full stop
};

// Workers that compute prompts and generate: it is estimated that fewer of them would do, with the
// same time of a token.
struct ColocatedAdvice {
  uint32_t workers = 0;
  double prompt_share = 0;  // share of a worker's time for prompts, while its tokens wait
};

struct Advice {
  RoleAdvice prefill{};
  RoleAdvice decode{};
  std::optional<ColocatedAdvice> colocated{};
};

// How many of so many workers are to be prefill workers, so that the busier role is as little busy
// as possible: from 1 to workers - 1. REQUIRES: workers >= 2; the needs are not negative.
uint32_t BalancedPrefill(double prefill_needed, double decode_needed, uint32_t workers);

// How busy the busier role is, as a part of what it shall be. REQUIRES: as above, 0 < prefill <
// workers.
double BusierRole(double prefill_needed, double decode_needed, uint32_t prefill, uint32_t workers);

}  // namespace baton

#include "tests/support/cuda_shim/warp_access.h"

#include <algorithm>
#include <bit>

namespace baton::cuda_shim {
namespace {

constexpr size_t kBanks = 32;
constexpr size_t kBankBytes = 4;

uint64_t Quotient(uint64_t all, uint64_t each) { return (all + each - 1) / each; }

void Touch(TouchedSector touched, TouchedSector* sectors, size_t& count) {
  // Mostly it is the sector of the lane before.
  for (size_t i = count; i-- > 0;) {
    if (sectors[i].sector != touched.sector) continue;
    sectors[i].bytes |= touched.bytes;
    return;
  }
  sectors[count++] = touched;
}

// The distinct words that lanes [first, end) want.
class WantedWords {
 public:
  void Add(uintptr_t at, size_t bytes) {
    for (uintptr_t word = at / kBankBytes; word <= (at + bytes - 1) / kBankBytes; ++word) {
      const size_t bank = word % kBanks;
      const auto begin = words_[bank];
      const auto end = begin + counts_[bank];
      if (std::find(begin, end, word) != end) continue;
      words_[bank][counts_[bank]++] = word;
      ++all_;
    }
  }
  Requests Wavefronts() const {
    const uint64_t most = *std::max_element(std::begin(counts_), std::end(counts_));
    return {.done = most, .fewest = Quotient(all_, kBanks)};
  }

 private:
  uintptr_t words_[kBanks][2 * kLanes];
  uint64_t counts_[kBanks] = {};
  uint64_t all_ = 0;
};

}  // namespace

size_t FindSectors(const WarpAccess& access, TouchedSector (&sectors)[2 * kLanes]) {
  size_t count = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const size_t bytes = access.bytes[lane];
    if (bytes == 0) continue;
    const uintptr_t sector = access.at[lane] / kSectorBytes;
    const size_t offset = access.at[lane] % kSectorBytes;
    const uint64_t mask = ((uint64_t{1} << bytes) - 1) << offset;
    Touch({sector, static_cast<uint32_t>(mask)}, sectors, count);
    if (mask >> kSectorBytes != 0) {
      Touch({sector + 1, static_cast<uint32_t>(mask >> kSectorBytes)}, sectors, count);
    }
  }
  return count;
}

Requests SectorRequests(std::span<const TouchedSector> sectors) {
  uint64_t bytes = 0;
  for (const TouchedSector& sector : sectors) {
    bytes += static_cast<uint64_t>(std::popcount(sector.bytes));
  }
  return {.done = sectors.size(), .fewest = Quotient(bytes, kSectorBytes)};
}

Requests Wavefronts(const WarpAccess& access) {
  const int widest = *std::max_element(std::begin(access.bytes), std::end(access.bytes));
  const int phase_lanes = widest <= 4 ? kLanes : widest == 8 ? kLanes / 2 : kLanes / 4;
  Requests all;
  for (int first = 0; first < kLanes; first += phase_lanes) {
    WantedWords words;
    for (int lane = first; lane < first + phase_lanes; ++lane) {
      if (access.bytes[lane] > 0) words.Add(access.at[lane], access.bytes[lane]);
    }
    all += words.Wavefronts();
  }
  return all;
}

}  // namespace baton::cuda_shim

#include "common/kv/staging.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

// So large that a message of one slot costs hardly more than its bytes do, of half the bytes too
// if they are converted; so small that several are under way within a push's window.
constexpr size_t kSlotBytes = size_t{2} << 20;
constexpr uint64_t kLeastSlots = 8;  // lets several slots be under way, whatever the memory

KvLayout LayoutOf(const KvLayout& cache, int pages) {
  KvLayout slot = cache;
  slot.layers = 1;
  slot.groups = {};
  slot.block_size = pages * kKvPageTokens;
  return slot;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvStaging>> KvStaging::Create(KvCache& cache,
                                                             const Options& options) {
  BATON_CHECK(!cache.host_memory() && options.chunk_tokens > 0, "what has to be staged");
  const size_t page_bytes = LayoutOf(cache.layout(), 1).block_bytes();
  const uint64_t most = std::min<uint64_t>(kSlotBytes, options.bytes / kLeastSlots) / page_bytes;
  const auto pages = static_cast<int>(
      std::clamp<uint64_t>(most, 1, static_cast<uint64_t>(KvPages(options.chunk_tokens))));
  const KvLayout layout = LayoutOf(cache.layout(), pages);
  const uint64_t slots = options.bytes / layout.block_bytes();
  if (slots == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-staging-memory-bytes: ", options.bytes, " bytes cannot hold a page of ",
                     kKvPageTokens, " tokens in one layer; give at least ", page_bytes));
  }
  const size_t bytes = slots * layout.block_bytes();
  absl::StatusOr<BackendBuffer> memory = cache.device_copies()->AllocatePinned(bytes);
  if (!memory.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("staging of K and V: ", std::string(memory.status().message()),
                     "; lower --kv-staging-memory-bytes"));
  }
  return std::unique_ptr<KvStaging>(
      new KvStaging(cache, layout, static_cast<int>(slots), *std::move(memory), options.helpers));
}

KvStaging::KvStaging(KvCache& cache, const KvLayout& layout, int slot_count, BackendBuffer memory,
                     int helpers)
    : cache_(cache),
      layout_(layout),
      slot_count_(slot_count),
      memory_(std::move(memory)),
      free_(static_cast<size_t>(slot_count)),
      jobs_(helpers) {
  std::iota(free_.rbegin(), free_.rend(), 0);
}

KvStaging::~KvStaging() {
  BATON_CHECK(free_slots() == slot_count_ && users_.empty(), "staging outlives its users");
}

int KvStaging::free_slots() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(free_.size());
}

KvStaging::Slot::Slot(Slot&& other) noexcept { *this = std::move(other); }

KvStaging::Slot& KvStaging::Slot::operator=(Slot&& other) noexcept {
  if (staging_ != nullptr) staging_->GiveBack(user_, index_);
  staging_ = std::exchange(other.staging_, nullptr);
  user_ = other.user_;
  index_ = other.index_;
  return *this;
}

KvStaging::Slot::~Slot() {
  if (staging_ != nullptr) staging_->GiveBack(user_, index_);
}

uint8_t* KvStaging::Slot::data() const {
  return staging_->memory_.data() + static_cast<size_t>(index_) * staging_->slot_bytes();
}

KvStaging::User::User(KvStaging& staging, std::function<void(Slot)> granted)
    : staging_(staging), id_([&] {
        const std::lock_guard lock(staging.mutex_);
        return ++staging.last_user_;
      }()) {
  const std::lock_guard lock(staging_.mutex_);
  staging_.users_[id_].granted = std::move(granted);
}

KvStaging::User::~User() { staging_.Leave(id_); }

KvStaging::Slot KvStaging::User::Take() {
  const std::lock_guard lock(staging_.mutex_);
  UserState& user = staging_.users_.at(id_);
  BATON_CHECK(!user.waiting, "one slot is waited for at a time");
  user.waiting = true;  // counts among the sharers from now on
  if (!staging_.free_.empty() && staging_.MayTake(user)) return staging_.TakeFor(id_, user);
  staging_.waiting_.push_back(id_);
  return {};
}

KvStaging::Slot KvStaging::TakeFor(uint64_t id, UserState& user) {
  user.waiting = false;
  ++user.held;
  const int index = free_.back();
  free_.pop_back();
  return {this, id, index};
}

// Whether the user holds less than its share.
bool KvStaging::MayTake(const UserState& user) const {
  const auto sharers = std::count_if(users_.begin(), users_.end(), [](const auto& entry) {
    return entry.second.held > 0 || entry.second.waiting;
  });
  return user.held < std::max<int64_t>(1, slot_count_ / std::max<int64_t>(1, sharers));
}

std::vector<KvStaging::Grant> KvStaging::GrantWaiting() {
  std::vector<Grant> grants;
  while (!free_.empty()) {
    const auto next = std::find_if(waiting_.begin(), waiting_.end(),
                                   [this](uint64_t id) { return MayTake(users_.at(id)); });
    if (next == waiting_.end()) break;
    const uint64_t id = *next;
    waiting_.erase(next);
    UserState& user = users_.at(id);
    grants.push_back({user.granted, TakeFor(id, user)});
  }
  return grants;
}

void KvStaging::GiveBack(uint64_t user, int index) {
  std::vector<Grant> grants;
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(index);
    const auto found = users_.find(user);
    --found->second.held;
    Forget(found);
    grants = GrantWaiting();
  }
  for (Grant& grant : grants) grant.granted(std::move(grant.slot));
}

void KvStaging::Leave(uint64_t user) {
  std::vector<Grant> grants;
  std::function<void(Slot)> granted;  // destroyed without the lock, because it may hold slots
  {
    const std::lock_guard lock(mutex_);
    const auto found = users_.find(user);
    granted = std::move(found->second.granted);
    found->second.gone = true;
    found->second.waiting = false;
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), user), waiting_.end());
    Forget(found);
    grants = GrantWaiting();
  }
  for (Grant& grant : grants) grant.granted(std::move(grant.slot));
}

void KvStaging::Forget(std::map<uint64_t, UserState>::iterator user) {
  if (user->second.gone && user->second.held == 0) users_.erase(user);
}

}  // namespace baton

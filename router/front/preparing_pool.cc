#include "router/front/preparing_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "router/request/errors.h"

namespace baton {
namespace {

// As of the router's queue (router/dispatch/admission.cc).
constexpr size_t kPlacesOfTenant = 8;

}  // namespace

PreparingPool::PreparingPool(int threads, size_t capacity)
    : capacity_(capacity),
      most_of_tenant_(threads > 1 ? threads - 1 : std::numeric_limits<int>::max()) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

PreparingPool::~PreparingPool() { Close(); }

bool PreparingPool::TryRun(Job job) {
  const std::lock_guard lock(mutex_);
  if (closed_ || waiting_ >= capacity_) return false;
  const auto tenant = tenants_.try_emplace(job.tenant).first;
  const bool named = !job.tenant.empty();
  if (named && tenant->second.waiting.size() >= kPlacesOfTenant * (capacity_ - waiting_))
    return false;
  ++waiting_;
  tenant->second.waiting.emplace_back(++last_number_, std::move(job));
  Offer(tenant);
  return true;
}

void PreparingPool::Offer(Tenants::iterator tenant) {
  Tenant& own = tenant->second;
  if (own.waiting.empty()) {
    if (own.running == 0) tenants_.erase(tenant);
    return;
  }
  const bool has_room = tenant->first.empty() || own.running < most_of_tenant_;
  if (own.has_turn || !has_room) return;
  own.has_turn = true;
  const auto& [number, job] = own.waiting.front();
  turns_.Push(
      {.number = number, .tenant = tenant->first, .tokens = std::max<uint64_t>(job.cost, 1)});
  changed_.notify_one();
}

PreparingPool::Job PreparingPool::Take() {
  const auto tenant = tenants_.find(turns_.Front()->tenant);
  Tenant& own = tenant->second;
  Job job = std::move(own.waiting.front().second);
  own.waiting.pop_front();
  --waiting_;
  ++own.running;
  own.has_turn = false;
  Offer(tenant);  // before this one leaves: a tenant that is not in `turns_` counts as a new one
  turns_.TakeFront();
  return job;
}

absl::Status PreparingPool::MayRun(const Job& job) const {
  if (stopping_.load()) return RouterDraining();
  if (job.cancelled && job.cancelled()) return absl::CancelledError("the client has left");
  return absl::OkStatus();
}

void PreparingPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !turns_.empty() || (closed_ && waiting_ == 0); });
    if (turns_.empty()) return;
    {
      Job job = Take();
      const std::string tenant = job.tenant;
      lock.unlock();
      job.run(MayRun(job));
      job = Job();  // what it holds is given back without the lock
      lock.lock();
      const auto own = tenants_.find(tenant);
      --own->second.running;
      Offer(own);
    }
    if (closed_ && waiting_ == 0) changed_.notify_all();
  }
}

void PreparingPool::Close() {
  Stop();
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
}

}  // namespace baton

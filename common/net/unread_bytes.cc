#include "common/net/unread_bytes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {

void UnreadBytes::Part::SetTenant(const std::string& tenant) {
  BATON_CHECK(bytes_ == 0, "a part's tenant is set before it takes bytes");
  tenant_ = tenant;
}

bool UnreadBytes::Part::Take(size_t bytes) {
  if (bytes == 0) return true;
  const size_t taken = all_.Take(tenant_, bytes);
  bytes_ += taken;
  return taken > 0;
}

void UnreadBytes::Part::GiveBack() {
  if (bytes_ > 0) all_.GiveBack(tenant_, std::exchange(bytes_, 0));
}

size_t UnreadBytes::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

size_t UnreadBytes::Take(const std::string& tenant, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (bytes_ == 0) {
    bytes = std::min(bytes, std::max<size_t>(limit_ / 2, 1));
  } else {
    const size_t free = limit_ - bytes_;
    if (bytes > free) return 0;
    const auto found = bytes_of_.find(tenant);
    const size_t own = found == bytes_of_.end() ? 0 : found->second;
    if (!tenant.empty() && own + bytes > free - bytes) return 0;
  }
  bytes_ += bytes;
  bytes_of_[tenant] += bytes;
  return bytes;
}

void UnreadBytes::GiveBack(const std::string& tenant, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  bytes_ -= bytes;
  const auto own = bytes_of_.find(tenant);
  own->second -= bytes;
  if (own->second == 0) bytes_of_.erase(own);
}

}  // namespace baton

// Room for the bodies of a test's requests.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"

#include "router/http/exchange.h"

namespace baton {

// Room for so many bytes of all requests together. Thread-safe.
class CountedRoom {
 public:
  explicit CountedRoom(size_t limit) : limit_(limit) {}

  size_t used() const { return *used_; }
  // Handler::room.
  std::function<std::optional<BodyRoom>(const HttpRequest&)> Giver() const {
    return [used = used_, limit = limit_](const HttpRequest&) {
      // What one request has taken, which its last owner gives back.
      const std::shared_ptr<size_t> own(new size_t(0), [used](size_t* taken) {
        *used -= *taken;
        delete taken;
      });
      return std::optional<BodyRoom>([used, limit, own](size_t bytes) {
        if (*used + bytes > limit) return absl::ResourceExhaustedError("there is no room");
        *used += bytes;
        *own += bytes;
        return absl::OkStatus();
      });
    };
  }

 private:
  const size_t limit_;
  const std::shared_ptr<std::atomic<size_t>> used_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace baton

// What the bits of results depend on besides their inputs: backend, mode, KV type and so on.
#pragma once

#include <string>
#include <utility>

#include "common/base/kv_type.h"

namespace baton {

// The end of a backend's name where a row's bits depend on other rows of its batch: CUDA without
// --deterministic.
inline constexpr char kVaryingNumerics[] = "-varying";

// A name. Equal names mean equal bits wherever bits_are_equal() says so. An immutable value.
//   BACKEND/TYPE                     computed by the backend, kept in a cache of that KV type
//   NUMERICS over TYPE into NUMERICS the first computed it; it was sent as the type, which lost
//                                    precision, to a worker with the second
class Numerics {
 public:
  // As a message spells it.
  explicit Numerics(std::string name) : name_(std::move(name)) {}
  // `backend` is the backend's own name (Backend::Numerics).
  static Numerics OfCache(const std::string& backend, KvType type);
  static Numerics Converted(const Numerics& sender, KvType wire, const Numerics& receiver);

  const std::string& name() const { return name_; }
  // Whether equal inputs give equal bits each time: no backend of the name varies.
  bool bits_are_equal() const;
  friend bool operator==(const Numerics&, const Numerics&) = default;

 private:
  std::string name_;
};

}  // namespace baton

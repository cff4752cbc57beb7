// Stands in for common/net/credentials.h: nobody listens in.
#pragma once

namespace baton {
inline namespace simulated {

struct Credentials {};

}  // namespace simulated
}  // namespace baton

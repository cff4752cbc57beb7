// Stands in for common/rpc/credentials.h: nobody listens in.
#pragma once

namespace baton {
inline namespace simulated {

struct Credentials {};

}  // namespace simulated
}  // namespace baton

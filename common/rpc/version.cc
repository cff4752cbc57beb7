#include "common/rpc/version.h"

namespace baton {

const char* Version() { return BATON_VERSION; }

}  // namespace baton

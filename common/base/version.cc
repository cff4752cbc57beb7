#include "common/base/version.h"

namespace baton {

const char* Version() { return BATON_VERSION; }

}  // namespace baton

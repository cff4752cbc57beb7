// The version of this Baton.
#pragma once

namespace baton {

const char* Version();  // "0.1.0"

}  // namespace baton

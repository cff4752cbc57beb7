// Which Baton this is.
#pragma once

namespace baton {

const char* Version();  // "0.1.0"

}  // namespace baton

#include "common/net/serve_key_flag.h"

namespace baton {

void AddServeKeyFileFlag(FlagSet& flags, std::string& file) {
  flags.AddString("serve-key-file", file,
                  "File with API keys of your own, one a line, mode 0600. Clients must show one of "
                  "them, or a key of --api-keys. Read every second");
  flags.AddForeign("api-key",
                   "others can read a key on a command line; write it to a file of mode 0600 and "
                   "give --serve-key-file FILE");
  flags.AddForeign("api-key-file",
                   "is how clients show a key; a server takes keys by --serve-key-file FILE");
}

}  // namespace baton

#include "common/net/door_flags.h"

namespace baton {

void AddServeKeyFileFlag(FlagSet& flags, std::string& file) {
  flags.AddString("serve-key-file", file,
                  "File with API keys of your own, one a line, mode 0600. Clients must show one of "
                  "them, or a key of --api-keys. Read every second");
  flags.AddForeign("api-key",
                   "others can read a key on a command line; write it to a file of mode 0600 and "
                   "give --serve-key-file FILE");
}

void AddHttpAllowHostFlag(FlagSet& flags, std::vector<std::string>& hosts) {
  flags.AddStrings("http-allow-host", hosts,
                   "Names or addresses that HTTP requests without a key may use as Host, beside "
                   "localhost, 127.0.0.1 and [::1] (with --insecure: any address and the network's "
                   "own names), or *; repeated");
}

}  // namespace baton

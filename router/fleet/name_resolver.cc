#include "router/fleet/name_resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

#include "common/base/numeric_address.h"

namespace baton {

HostAddresses LookUpHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error == EAI_NONAME) return absl::NotFoundError("no such host");
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> number{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, number.data(), number.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(number.data());
    }
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

struct NameResolver::State {
  struct Name {
    std::optional<HostAddresses> latest;
    absl::Time asked = absl::InfinitePast();  // when the last lookup began
    bool running = false;
  };

  explicit State(LookUp look_up_host) : look_up(std::move(look_up_host)) {}

  void Start(const std::shared_ptr<State>& self, const std::string& host)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Finish(const std::string& host, HostAddresses found);

  const LookUp look_up;
  absl::Mutex mutex;
  std::map<std::string, Name> names ABSL_GUARDED_BY(mutex);
  uint64_t answers ABSL_GUARDED_BY(mutex) = 0;
  int lookups ABSL_GUARDED_BY(mutex) = 0;  // running lookups, also of forgotten names
};

void NameResolver::State::Start(const std::shared_ptr<State>& self, const std::string& host) {
  Name& name = names[host];
  try {
    std::thread([self, host] { self->Finish(host, self->look_up(host)); }).detach();
  } catch (const std::system_error& error) {
    name.latest = absl::UnavailableError(
        absl::StrCat("cannot start a thread to resolve a host name: ", error.what()));
    return;
  }
  name.running = true;
  ++lookups;
}

void NameResolver::State::Finish(const std::string& host, HostAddresses found) {
  const absl::MutexLock lock(&mutex);
  --lookups;
  ++answers;
  const auto name = names.find(host);
  if (name == names.end()) return;
  name->second.running = false;
  name->second.latest = std::move(found);
}

NameResolver::NameResolver(LookUp look_up) : state_(std::make_shared<State>(std::move(look_up))) {}

void NameResolver::Ask(std::vector<std::string> hosts, absl::Time now) {
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const absl::MutexLock lock(&state_->mutex);
  std::map<std::string, State::Name>& names = state_->names;
  for (auto name = names.begin(); name != names.end();) {
    const bool forget =
        !name->second.running && !std::binary_search(hosts.begin(), hosts.end(), name->first);
    name = forget ? names.erase(name) : std::next(name);
  }
  std::multimap<absl::Time, std::string> by_age;
  for (const std::string& host : hosts) {
    if (const auto number = ParseNumericAddress(host); number.has_value()) {
      names[host].latest = std::vector<std::string>{NumericText(*number)};
    } else if (!names[host].running) {
      by_age.emplace(names[host].asked, host);
    }
  }
  for (const auto& [asked, host] : by_age) {
    if (state_->lookups >= kMaxLookups) return;
    names[host].asked = now;
    state_->Start(state_, host);
  }
}

std::optional<HostAddresses> NameResolver::Latest(const std::string& host) const {
  const absl::MutexLock lock(&state_->mutex);
  const auto name = state_->names.find(host);
  return name == state_->names.end() ? std::nullopt : name->second.latest;
}

uint64_t NameResolver::answers() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->answers;
}

std::optional<absl::Time> NameResolver::WaitsSince(const std::string& host) const {
  const absl::MutexLock lock(&state_->mutex);
  const auto name = state_->names.find(host);
  if (name == state_->names.end() || !name->second.running) return std::nullopt;
  return name->second.asked;
}

}  // namespace baton

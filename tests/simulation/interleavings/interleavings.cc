// The search over every order of events.
#include "tests/simulation/interleavings/interleavings.h"

#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "tests/simulation/interleavings/interleaving_world.h"

namespace baton {
namespace {

struct Search {
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.low); }
  };
  InterleavingResult result;
  std::unordered_set<Hash128, HashOf> seen;  // asked for membership only
  std::vector<std::string> path;

  bool IsNew(const InterleavingWorld& world) {
    return seen.insert(ChainHash(Hash128{}, world.State())).second;
  }
  void Fail(const InterleavingWorld& world) {
    result.violation = world.violation();
    for (const std::string& step : path) absl::StrAppend(&result.violation, "\n  ", step);
  }
  // Depth first: a path has some sixty events at most.
  void Explore(const InterleavingWorld& world) {
    ++result.states;
    const std::vector<InterleavingWorld::Choice> choices = world.Choices();
    if (choices.empty()) {
      InterleavingWorld end = world;
      end.CheckEnd();
      ++result.ends;
      result.committed += static_cast<uint64_t>(end.committed());
      if (!end.violation().empty()) Fail(end);
    }
    for (const InterleavingWorld::Choice& choice : choices) {
      if (!result.violation.empty()) return;
      ++result.transitions;
      InterleavingWorld next = world;
      next.Take(choice);
      path.push_back(InterleavingWorld::Name(choice));
      if (!next.violation().empty()) {
        Fail(next);
      } else if (IsNew(next)) {
        Explore(next);
      }
      path.pop_back();
    }
  }
};

}  // namespace

InterleavingResult EnumerateInterleavings(const InterleavingOptions& options) {
  Search search;
  const InterleavingWorld start(options);
  search.IsNew(start);
  search.Explore(start);
  return search.result;
}

}  // namespace baton

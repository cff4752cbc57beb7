// How waiting requests share what leaves the queue: start-time fair queueing, in levels.
//
// A member's tag says how much it was served, in tokens; the least tag goes next, and its member is
// charged with the request's tokens then, not before: what leaves unserved costs nothing. A member
// that comes, or comes back, begins at the virtual time, which grows with each request served by
// that request's share of all members that wait, but does not pass the tag of the member that was
// served if more of its requests wait. So no member saves up for a burst by staying away, and
// however many members come anew, those that wait are reached. Of equal tags the one that was
// served least recently goes first, a member that comes anew before all others: who asks seldom
// waits for the request that is being served, and not for the next one too.
//
// The members of the first level are tenants, those of the second one tenant's users, so a tenant
// gets no more by having more users.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace baton {

struct QueueEntry {
  uint64_t number = 0;  // grows in the order of arrival; no two are equal
  int32_t priority = 0;
  std::string tenant{};
  std::string user{};    // the tenant's user
  uint64_t tokens = 0;   // prompt and expected output
  bool resumed = false;  // was served before, and charged then
};

// One user's requests in the order of their arrival. Not thread-safe, as all of these.
class ArrivalOrder {
 public:
  explicit ArrivalOrder(size_t /*max_idle*/) {}
  bool empty() const { return numbers_.empty(); }
  uint64_t first() const { return *numbers_.begin(); }
  void Push(const QueueEntry& entry) { numbers_.insert(entry.number); }
  void Remove(const QueueEntry& entry, bool /*served*/) { numbers_.erase(entry.number); }

  class Walk {
   public:
    explicit Walk(const ArrivalOrder& order)
        : at_(order.numbers_.begin()), end_(order.numbers_.end()) {}
    bool done() const { return at_ == end_; }
    uint64_t number() const { return *at_; }
    void Next(double /*tokens*/) { ++at_; }

   private:
    std::set<uint64_t>::const_iterator at_, end_;
  };

 private:
  std::set<uint64_t> numbers_;
};

// Shares among members that `kName` of an entry names; each member has an order of its own. Of
// members that do not wait it remembers at most `max_idle`, and forgets those first that owe least.
template <typename Member, std::string QueueEntry::*kName>
class FairShare {
 public:
  explicit FairShare(size_t max_idle) : max_idle_(max_idle) {}
  FairShare(FairShare&&) noexcept = default;
  FairShare& operator=(FairShare&&) noexcept = default;

  bool empty() const { return active_.empty(); }
  size_t idle_members() const { return idle_.size(); }
  // The number of the next entry. REQUIRES: !empty().
  uint64_t first() const { return active_.begin()->first.number; }

  // REQUIRES: no entry of that number is inside.
  void Push(const QueueEntry& entry) {
    const auto found = nodes_.try_emplace(entry.*kName, max_idle_).first;
    Node& node = found->second;
    node.name = &found->first;
    if (node.member.empty()) {
      idle_.erase({node.tag, *node.name});
      node.tag = std::max(node.tag, virtual_time_);
      node.turn = 0;
    } else {
      active_.erase(PositionOf(node));
    }
    node.member.Push(entry);
    Place(node);
  }

  // REQUIRES: it is inside, and the next one if `served`.
  void Remove(const QueueEntry& entry, bool served) {
    Node& node = nodes_.at(entry.*kName);
    const auto sharing = static_cast<double>(active_.size());
    active_.erase(PositionOf(node));
    node.member.Remove(entry, served);
    if (served) {
      const auto tokens = static_cast<double>(entry.tokens);
      const double advanced = std::max(virtual_time_, node.tag) + tokens / sharing;
      node.tag += tokens;
      node.turn = ++turns_;
      virtual_time_ =
          node.member.empty() ? advanced : std::max(virtual_time_, std::min(advanced, node.tag));
    }
    Place(node);
    ForgetIdle();
  }

 private:
  // Where a member stands that waits.
  struct Position {
    double tag = 0;
    uint64_t turn = 0;
    uint64_t number = 0;  // number of its next entry
    auto operator<=>(const Position&) const = default;
  };
  struct Node {
    explicit Node(size_t max_idle) : member(max_idle) {}
    Member member;
    const std::string* name = nullptr;  // its key
    double tag = 0;                     // tokens
    uint64_t turn = 0;  // when it was served last, counted in turns; 0: not since it came
  };

 public:
  // Goes through the entries in the order of being served, if nothing else comes. Borrows the
  // share, which must not change.
  class Walk {
   public:
    explicit Walk(const FairShare& share) : served_(share.turns_) {
      for (const auto& [position, node] : share.active_) {  // ascending: a heap, the next one first
        turns_.push_back({position, typename Member::Walk(node->member)});
      }
    }
    bool done() const { return turns_.empty(); }
    uint64_t number() const { return turns_.front().position.number; }
    // The present one was served `tokens` tokens; 0: it was left out. REQUIRES: !done().
    void Next(double tokens) {
      std::pop_heap(turns_.begin(), turns_.end(), std::greater<>());
      Turn& turn = turns_.back();
      turn.position.tag += tokens;
      if (tokens > 0) turn.position.turn = ++served_;
      turn.walk.Next(tokens);
      if (turn.walk.done()) {
        turns_.pop_back();
        return;
      }
      turn.position.number = turn.walk.number();
      std::push_heap(turns_.begin(), turns_.end(), std::greater<>());
    }

   private:
    struct Turn {
      Position position;
      typename Member::Walk walk;
      bool operator>(const Turn& other) const { return position > other.position; }
    };
    std::vector<Turn> turns_;
    uint64_t served_;
  };

 private:
  static Position PositionOf(const Node& node) {
    return {node.tag, node.turn, node.member.first()};
  }

  // Puts a member where it belongs after its tag or entries changed.
  void Place(Node& node) {
    if (node.member.empty()) {
      node.member = Member(max_idle_);  // what its own members owe each other is forgotten
      idle_.emplace(std::make_pair(node.tag, *node.name), &node);
    } else {
      active_.emplace(PositionOf(node), &node);
    }
  }
  // Who owes nothing is as good as unknown.
  void ForgetIdle() {
    while (!idle_.empty()) {
      const auto least = idle_.begin();
      if (least->first.first > virtual_time_ && idle_.size() <= max_idle_) return;
      const std::string name = least->first.second;
      idle_.erase(least);
      nodes_.erase(name);
    }
  }

  size_t max_idle_;
  double virtual_time_ = 0;  // tokens
  uint64_t turns_ = 0;       // requests served
  std::map<std::string, Node> nodes_;
  std::map<Position, Node*> active_;                      // those that wait
  std::map<std::pair<double, std::string>, Node*> idle_;  // the others, which owe: tag > time
};

}  // namespace baton

#include "common/base/thread_group.h"

#include <iterator>
#include <utility>

namespace baton {

ThreadGroup::~ThreadGroup() {
  while (true) {
    std::list<Member> members;
    {
      const std::lock_guard lock(mutex_);
      members.swap(members_);
    }
    if (members.empty()) return;
    for (Member& member : members) member.thread.join();
  }
}

void ThreadGroup::Start(std::function<void()> body) {
  std::list<Member> ended;
  {
    const std::lock_guard lock(mutex_);
    for (auto member = members_.begin(); member != members_.end();) {
      const auto next = std::next(member);
      if (member->ended) ended.splice(ended.end(), members_, member);
      member = next;
    }
    Member& member = members_.emplace_back();
    member.thread = std::thread([&member, body = std::move(body)]() mutable {
      body();
      body = nullptr;
      member.ended = true;
    });
  }
  for (Member& member : ended) member.thread.join();
}

size_t ThreadGroup::size() const {
  const std::lock_guard lock(mutex_);
  return members_.size();
}

}  // namespace baton

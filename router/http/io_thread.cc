#include "router/http/io_thread.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/post.hpp"

namespace baton {
namespace {

constexpr size_t kScratchBytes = size_t{64} << 10;

// A thread that is woken then lets the one that wakes it go on, where both share a core: the tokens
// of a worker's step are written together, and not with two switches of threads for each.
void RunInBatches() {
  const sched_param none{};
  pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

}  // namespace

void IoMailbox::Post(absl::AnyInvocable<void()> task) {
  // A task that is dropped may hold the last reference to an exchange, which would post again: its
  // end is outside the lock.
  absl::MutexLock lock(&mutex_);
  if (io_ != nullptr) boost::asio::post(*io_, std::move(task));
}

void IoMailbox::Close() {
  absl::MutexLock lock(&mutex_);
  io_ = nullptr;
}

IoThread::IoThread() : scratch_(kScratchBytes, '\0') {
  thread_ = std::thread([this] {
    mailbox_->Settle();
    RunInBatches();
    const auto stay = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

void IoThread::Stop() {
  mailbox_->Post([this] { io_.stop(); });
  thread_.join();
  mailbox_->Close();
}

}  // namespace baton

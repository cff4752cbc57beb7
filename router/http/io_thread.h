// A thread that serves the descriptors of many connections.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

#include "boost/asio/io_context.hpp"

namespace baton {

// Where others leave work for an I/O thread. Thread-safe; shared by the thread and by exchanges,
// which may outlive it.
class IoMailbox {
 public:
  explicit IoMailbox(boost::asio::io_context& io) : io_(&io) {}
  // `task` runs on the thread, after those that were left before; after Close it is dropped.
  void Post(absl::AnyInvocable<void()> task);
  // Whether the caller runs on the thread.
  bool IsHere() const { return std::this_thread::get_id() == thread_.load(); }
  // The caller's thread is the one that runs the tasks.
  void Settle() { thread_ = std::this_thread::get_id(); }
  void Close();

 private:
  std::atomic<std::thread::id> thread_{};
  absl::Mutex mutex_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mutex_);  // null once closed
};

// Runs from its construction on; it belongs to the server, whose connections belong to it.
class IoThread {
 public:
  IoThread();
  // REQUIRES: Stop was called.
  ~IoThread() = default;

  boost::asio::io_context& io() { return io_; }
  const std::shared_ptr<IoMailbox>& mailbox() const { return mailbox_; }
  // Memory into which the thread's connections read, one at a time.
  std::string& scratch() { return scratch_; }

  // Runs what was left, and nothing more. When it returns, nothing runs.
  void Stop();

 private:
  boost::asio::io_context io_{1};
  const std::shared_ptr<IoMailbox> mailbox_ = std::make_shared<IoMailbox>(io_);
  std::string scratch_;
  std::thread thread_;
};

}  // namespace baton

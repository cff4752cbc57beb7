// An exchange without a connection, of which a test sees what is asked for.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

#include "router/http/exchange.h"

namespace baton {

// Only Post and Respond are called by other threads than the test's, which plays the I/O thread.
class PlayedExchange final : public HttpExchange {
 public:
  const HttpRequest& request() const override { return request_; }
  void Post(std::function<void()> task) override {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
  }
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  bool gone() const override { return left_; }
  void CountFor(const std::string& tenant) override { counted_for = tenant; }
  void Respond(HttpResponse answer) override {
    Post([this, answer = std::move(answer)] {
      EXPECT_FALSE(begun || over()) << "an exchange has one answer";
      response = answer;
      response.body += std::string(std::exchange(response.rest, {}));
    });
  }
  void BeginEvents(std::vector<HttpHeader> headers) override {
    EXPECT_FALSE(begun || over()) << "an exchange has one answer";
    begun = true;
    stream_headers = std::move(headers);
  }
  void Send(std::string bytes, std::function<void(bool ok)> written) override {
    EXPECT_TRUE(begun && !over()) << "events are sent between the beginning and the end";
    if (reads_) sent += bytes;
    if (!written) return;
    if (reads_) return written(true);
    unwritten_.push_back(std::move(written));
  }
  void SendLong(absl::Cord bytes, std::function<void(bool ok)> written) override {
    Send(std::string(bytes), std::move(written));
  }
  void EndEvents() override {
    EXPECT_TRUE(begun && !over()) << "an exchange has one end";
    ended = true;
  }
  void Break() override {
    EXPECT_FALSE(over()) << "an exchange has one end";
    broken = true;
    FailUnwritten();
  }

  // Does what was posted until nothing more is; false: there was nothing.
  bool Run() {
    bool ran = false;
    for (std::function<void()> task; (task = Next()) != nullptr; ran = true) task();
    return ran;
  }
  // From now on nothing is written.
  void StopReading() { reads_ = false; }
  // The client leaves.
  void Leave() {
    left_ = true;
    FailUnwritten();
    if (gone_) std::exchange(gone_, nullptr)();
  }

  // What was asked for.
  HttpResponse response{.status = 0, .headers = {}, .body = ""};
  std::string counted_for;
  bool begun = false;
  std::vector<HttpHeader> stream_headers;
  std::string sent;
  bool ended = false;
  bool broken = false;

 private:
  bool over() const { return response.status != 0 || ended || broken || left_; }
  std::function<void()> Next() {
    absl::MutexLock lock(&mutex_);
    if (tasks_.empty()) return nullptr;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }
  void FailUnwritten() {
    for (const auto& written : std::exchange(unwritten_, {})) written(false);
  }

  HttpRequest request_;
  std::function<void()> gone_;
  std::vector<std::function<void(bool ok)>> unwritten_;
  bool reads_ = true;
  std::atomic<bool> left_ = false;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton

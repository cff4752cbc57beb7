// The memory and the budgets of one rendering of a chat template.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/jinja/text.h"
#include "common/jinja/value.h"

namespace baton::jinja {

// The limits of one rendering. They keep it within 250 ms of CPU time and 128 MiB: the rest is for
// the one operation that runs when a limit is met, and for freeing all values. Memory of values is
// freed only at the end, so kMaxMemoryBytes also bounds the bytes that are copied.
constexpr size_t kMaxSteps = 2'000'000;
constexpr absl::Duration kMaxCpuTime = absl::Milliseconds(150);
constexpr size_t kMaxMemoryBytes = size_t{64} << 20;
constexpr size_t kMaxTextBytes = size_t{16} << 20;  // most bytes of one text, including the output
constexpr int kMaxEvaluationDepth = 500;
constexpr int kMaxContainerDepth = 64;

struct ListTraits {
  bool generator = false;
  bool trusted_size = true;  // as List::trusted_size
};

// Owns every value of one rendering and counts its steps, CPU time and memory against the limits.
// RESOURCE_EXHAUSTED names the limit that is exceeded. Belongs to the thread that made it.
class Workspace {
 public:
  // `cancelled`: once it is true, steps fail with CANCELLED. Null: never. Borrowed.
  explicit Workspace(const std::atomic<bool>* cancelled = nullptr);
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Every loop over what a template or a message can make long counts steps, in proportion to its
  // work: one for about 100 ns.
  absl::Status Step(size_t count = 1);
  // Counts the steps of reading `bytes` bytes of text.
  absl::Status StepBytes(size_t bytes) { return Step(bytes / 64); }
  // For loops over bytes: every 64th call is a step.
  absl::Status StepByte() { return ++bytes_ % 64 == 0 ? Step() : absl::OkStatus(); }

  // Fails if `bytes` more bytes would exceed the limit. Takes no memory.
  absl::Status CheckRoom(size_t bytes) const;
  absl::Status Take(size_t bytes);
  // REQUIRES: at least `bytes` are taken.
  void GiveBack(size_t bytes) { memory_bytes_ -= bytes; }

  absl::StatusOr<Value> NewText(Text text);
  absl::StatusOr<Value> NewText(absl::string_view bytes, bool trusted);
  // A text of text[begin, end).
  absl::StatusOr<Value> NewSlice(const Text& text, size_t begin, size_t end);
  absl::StatusOr<Value> NewList(std::vector<Value> items, ListTraits traits = {});
  // A later item replaces an earlier one with an equal key. A key that is neither text nor number
  // is an error. `json_source`: as Dict has it.
  absl::StatusOr<Value> NewDict(const std::vector<std::pair<Value, Value>>& items,
                                const Text* json_source = nullptr);
  // The names live as long as the template.
  absl::StatusOr<Value> NewNamespace(std::vector<std::pair<absl::string_view, Value>> attributes);
  absl::StatusOr<Loop*> NewLoop(const List* items);

 private:
  const std::atomic<bool>* const cancelled_;
  const absl::Duration begin_;  // CPU time of the thread
  size_t steps_ = 0;
  size_t next_check_ = 0;  // the step at which clock and flag are looked at again
  size_t bytes_ = 0;       // bytes that StepByte() counted
  size_t memory_bytes_ = 0;
  std::deque<Text> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
};

// Memory of the Workspace, which it borrows, that is given back with it.
class Held {
 public:
  explicit Held(Workspace& workspace) : workspace_(workspace) {}
  ~Held() { workspace_.GiveBack(bytes_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  absl::Status Take(size_t bytes);
  // REQUIRES: bytes <= this->bytes().
  void GiveBack(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  Workspace& workspace_;
  size_t bytes_ = 0;
};

// A text that grows under the limits of the Workspace, which it borrows. What is appended costs
// steps.
class TextBuilder {
 public:
  explicit TextBuilder(Workspace& workspace) : workspace_(workspace), held_(workspace) {}
  absl::Status Append(absl::string_view bytes, bool trusted);
  absl::Status Append(const Text& text) { return AppendSlice(text, 0, text.size()); }
  absl::Status AppendSlice(const Text& text, size_t begin, size_t end);
  size_t size() const { return text_.size(); }
  absl::StatusOr<Value> Finish();
  // The text itself, of which the Workspace knows no more.
  Text Release() { return std::move(text_); }

 private:
  absl::Status MakeRoom(size_t bytes, size_t runs);

  Workspace& workspace_;
  Held held_;
  Text text_;
};

// A list that grows under the limits of the Workspace, which it borrows. Items cost steps.
class ListBuilder {
 public:
  explicit ListBuilder(Workspace& workspace, ListTraits traits = {})
      : workspace_(workspace), held_(workspace), traits_(traits) {}
  absl::Status Add(const Value& item);
  absl::Status AddAll(absl::Span<const Value> items);
  // The text of a message decides how many items there are.
  void DistrustSize() { traits_.trusted_size = false; }
  absl::StatusOr<Value> Finish();

 private:
  absl::Status MakeRoom(size_t items);

  Workspace& workspace_;
  Held held_;
  ListTraits traits_;
  std::vector<Value> items_;
};

}  // namespace baton::jinja

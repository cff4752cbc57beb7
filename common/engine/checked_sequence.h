// A request to an engine that was checked where it came in.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/engine/sequence_request.h"

namespace baton {

// Holds a request that IsWellFormed and has no misfit (request_check.h). Only the border at which
// requests come in can make one, and what was checked does not change after that. So the engine
// checks nothing again.
class CheckedSequence {
 public:
  const SequenceRequest& request() const { return request_; }
  void set_resume_key(std::string key) { request_.resume_key = std::move(key); }
  void set_kv_source(std::string source) { request_.kv_source = std::move(source); }
  void set_on_event(std::function<void(const SequenceEvent&)> on_event) {
    request_.on_event = std::move(on_event);
  }
  SequenceRequest Take() && { return std::move(request_); }

 private:
  friend struct SequenceBorder;  // common/worker/convert.cc
  friend struct TestSequences;   // tests/common/engine/test_sequences.h
  explicit CheckedSequence(SequenceRequest request) : request_(std::move(request)) {}

  SequenceRequest request_;
};

}  // namespace baton

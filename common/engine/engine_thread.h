// The one thread that owns an engine's state and runs Step().
#pragma once

#include <atomic>
#include <thread>

#include "common/engine/engine.h"

namespace baton {

// Starts in the constructor, ends in the destructor (after the step in flight). Borrows the engine.
class EngineThread {
 public:
  explicit EngineThread(Engine& engine);
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  void Run();

  Engine& engine_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace baton

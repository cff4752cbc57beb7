// The one thread that owns an engine's state and runs Step().
#pragma once

#include <atomic>
#include <thread>

#include "common/engine/engine.h"

namespace baton {

// The engine's thread: it calls Step again and again, and WaitForWork when there is nothing to do.
// It lives from the constructor to the destructor, which lets the Step that it is in end and joins
// it. Sequences that have not ended by then get no further event. Borrows the engine, which must
// outlive it. REQUIRES: it is the engine's only EngineThread, and no other code calls Step.
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

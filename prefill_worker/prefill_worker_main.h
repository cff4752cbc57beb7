// baton-prefill-worker: prompts in, first tokens out, their KV caches to decode workers.
#pragma once

namespace baton {

// Runs the program and returns its exit status. Called once, by main.
int PrefillWorkerMain(int argc, char** argv);

}  // namespace baton

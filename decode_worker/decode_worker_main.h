// baton-decode-worker: KV caches in, tokens out; or prompts, where no prefill worker is wanted.
#pragma once

namespace baton {

// Runs the program and returns its exit status. Called once, by main.
int DecodeWorkerMain(int argc, char** argv);

}  // namespace baton

#include "prefill_worker/prefill_worker_main.h"

int main(int argc, char** argv) { return baton::PrefillWorkerMain(argc, argv); }

#include "decode_worker/decode_worker_main.h"

int main(int argc, char** argv) { return baton::DecodeWorkerMain(argc, argv); }

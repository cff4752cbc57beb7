// The lines that a worker prints when it is ready.
#pragma once

#include <string>

namespace baton {

struct BannerInfo {
  std::string version;
  std::string role;        // prefill or decode
  std::string model;       // name of the model
  std::string weights;     // type of the weights, such as "Q4_1"
  std::string kv_dtype;    // type of the KV cache, such as "f16"
  std::string kv_memory;   // KvMemoryText
  std::string draft = {};  // the draft model's memory; empty: there is none
  std::string device;      // Backend::Description()
  int kv_blocks = 0;
  int block_size = 0;     // tokens
  int max_model_len = 0;  // tokens
  std::string address;    // host:port of the gRPC server
};

// Makes the lines, without a newline at the end: version, role, model (its name as ShownLine shows
// it), types, device, KV blocks with their tokens and their memory, address.
std::string Banner(const BannerInfo& info);

}  // namespace baton

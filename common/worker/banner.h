// The lines a worker prints when it is ready.
#pragma once

#include <string>

namespace baton {

struct BannerInfo {
  std::string version;
  std::string role;      // prefill, decode
  std::string model;     // name
  std::string weights;   // "Q4_1"
  std::string kv_dtype;  // "f16"
  std::string device;    // Backend::Description()
  int kv_blocks = 0;
  int block_size = 0;     // tokens
  int max_model_len = 0;  // tokens
  std::string address;    // of the gRPC server
};

// A few lines without a newline at the end: version, role, model, types, device, "KV blocks =
// tokens", address.
std::string Banner(const BannerInfo& info);

}  // namespace baton

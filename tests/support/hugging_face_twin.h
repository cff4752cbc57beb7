// Writes a GGUF model as the Hugging Face folder that it could have been converted from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/gguf/gguf_file.h"

namespace baton {

// How a tensor of GGUF lies in the folder. '#' stands for the layer's number, '@' for an expert's.
struct TwinName {
  enum class Form {
    kSame,
    kHalves,      // rows of a head: those that GGUF has in turns are halves
    kMinusOne,    // a norm that is stored less one
    kEachExpert,  // a tensor for each expert
    kMxfp4,       // NAME_blocks and NAME_scales
    kDropped,     // made from config.json
  };
  std::string theirs;
  Form form = Form::kSame;
  // For kSame: a tensor of GGUF whose rows follow these, matrix by matrix, in one tensor.
  std::string second = "";
  bool in_turns = false;  // for kSame and kMxfp4: each row of `second` follows one of these
};

struct TwinOptions {
  std::map<std::string, TwinName> names;  // by GGUF's name with '#' for the layer
  uint64_t head_rows = 0;                 // rows of a head, for kHalves
  std::string config;                     // config.json
  int shards = 1;                         // more than 1: an index, and tensors dealt out in turn
};

// The names that most architectures have.
std::map<std::string, TwinName> CommonTwinNames(bool pairs);

// Returns the options of tests/data/arch/gpt-oss-mxfp4.gguf.
TwinOptions GptOssTwin();

// Writes the folder's files into `folder`, which is there. F32, F16 and BF16 stay as they are.
// Every tensor must have a name in the options.
void WriteTwin(const GgufFile& model, const TwinOptions& options, const std::string& folder);

}  // namespace baton

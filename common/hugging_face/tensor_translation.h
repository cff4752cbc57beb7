// Names a Hugging Face folder's tensors as GGUF does, and puts together those that GGUF has in
// another form.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "common/gguf/model_parts.h"
#include "common/hugging_face/folder_weights.h"
#include "common/hugging_face/model_type.h"
#include "common/hugging_face/translated_keys.h"

namespace baton {

struct TranslationOptions {
  std::string folder;        // for errors
  bool tied = false;         // the output head is the embedding, whatever else is there
  bool multimodal = false;   // there are parts that are not of the language model
  bool scaled_e4m3 = false;  // E4M3 with a scale for each 128 x 128 values is expected
};

// The model's tensors, which borrow bytes of the folder's files. Those that are computed
// from `keys`, such as the divisors of rope_freqs.weight, are among them. Errors name file and
// tensor: one that the architecture does not have, whose type is not supported, or whose shape or
// number does not fit the others.
absl::StatusOr<std::vector<ModelTensor>> TranslateTensors(const FolderTensors& tensors,
                                                          const ModelType& type,
                                                          const TranslatedKeys& keys,
                                                          const TranslationOptions& options);

}  // namespace baton

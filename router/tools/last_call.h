// Whether the last call of an answer has come to its end.
#pragma once

#include "router/tools/json_scanner.h"
#include "router/tools/tool_form.h"

namespace baton {

// Follows the parts of one choice. Not thread-safe. Takes time linear in the arguments.
class LastCall {
 public:
  // Parts come in their order; a call's own text is a beginning of its arguments.
  void Add(const AnswerPart& part) {
    const bool begins = part.kind == AnswerPart::Kind::kCall;
    if (begins) {
      scanner_ = JsonScanner();
      is_cut_ = !part.is_custom;  // the text of a custom tool ends anywhere
    }
    if (!begins && part.kind != AnswerPart::Kind::kArguments) return;
    for (const char byte : part.text) {
      if (!is_cut_) return;
      is_cut_ = scanner_.Push(byte) == JsonScanner::Result::kMore;
    }
  }
  // Whether the JSON of its arguments is a beginning alone, which a limit, a stop string or a stop
  // token cut. Arguments that can become no JSON are not cut.
  bool is_cut() const { return is_cut_; }

 private:
  JsonScanner scanner_;
  bool is_cut_ = false;
};

}  // namespace baton

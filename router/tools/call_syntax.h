// The syntax of calls in each family of models.
#pragma once

#include <string>
#include <vector>

#include "router/tools/tool_form.h"

namespace baton {

// A section of calls: a marker, `open`, calls with `separator` between them, `close`.
struct CallSyntax {
  enum class Body {
    kObject,  // {"name": ..., "arguments": {...}}
    kNamed,   // name[ARGS]{...}
  };
  std::vector<std::string> begins;  // the markers; each may begin a section, anywhere
  bool is_bare = false;  // the beginning of the answer needs no marker; the name has to be a tool's
  Body body = Body::kObject;
  bool has_xml = false;            // <function=name><parameter=key>value</parameter></function> too
  std::vector<std::string> open;   // tokens, with spaces between them
  std::string separator;           // empty: a section has one call
  std::vector<std::string> close;  // tokens
  std::vector<std::string> trailing;  // markers that may follow a section, which are no text
};

// REQUIRES: `kind` is not kHarmony, which has no sections.
CallSyntax CallSyntaxOf(ToolFormKind kind);

}  // namespace baton

// Macros that return early on an error in an absl::Status or absl::StatusOr.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns `expr` from the enclosing function unless it is OK.
#define BATON_RETURN_IF_ERROR(expr)                                 \
  do {                                                              \
    if (::absl::Status baton_status = (expr); !baton_status.ok()) { \
      return baton_status;                                          \
    }                                                               \
  } while (false)

#define BATON_STATUS_CONCAT_INNER(a, b) a##b
#define BATON_STATUS_CONCAT(a, b) BATON_STATUS_CONCAT_INNER(a, b)

// Assigns the value of `expr` to `lhs`, or returns its error from the enclosing function. `lhs` may
// be a declaration: BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
#define BATON_ASSIGN_OR_RETURN(lhs, expr) \
  BATON_ASSIGN_OR_RETURN_IMPL(BATON_STATUS_CONCAT(baton_statusor_, __LINE__), lhs, expr)

#define BATON_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expr)   \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)
